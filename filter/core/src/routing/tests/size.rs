use std::collections::HashSet;

use serde_json::json;

use super::super::Question;
use super::cluster::Index;
use super::world::{CONFIG, INTERVAL, World};
use crate::Time;

/// So many indices more, each on one node.
fn fill(world: &World, count: usize) {
    let mut cluster = world.cluster.borrow_mut();
    cluster.create("first", &["n0"]);
    let first = cluster.indices.remove("first").unwrap();
    for number in 0..count {
        cluster.indices.insert(format!("m{number:05}"), Index { uuid: format!("{number}"), ..first.clone() });
    }
}

#[test]
fn a_large_state_is_read_in_steps() {
    let mut world = World::new(1);
    fill(&world, 10_000);
    let overview = world.cluster.borrow().answer(&Question::Overview.path()).to_string().len();
    assert!(overview > 500_000);
    world.run_for(Time::ZERO);
    assert_eq!(world.workers[0].borrow().asked[0], Question::Overview);
    let details = world.count("details of indices");
    // The overview in steps of 256 kB, each answer with details in one, then what was found is told.
    let least = overview / (256 << 10) + details;
    let pauses = world.workers[0].borrow().pauses;
    assert!((least..least + 200).contains(&pauses), "{pauses} pauses, {least} steps at least");
    world.check();
    world.join(CONFIG);
    world.run_for(Time::ZERO);
    world.check();
    // 255 sections in steps of 32.
    assert!((8..20).contains(&world.workers[1].borrow().pauses), "{}", world.workers[1].borrow().pauses);
}

#[test]
fn no_question_is_longer_than_a_cluster_takes() {
    let mut world = World::new(1);
    let mut names: HashSet<String> = HashSet::new();
    for number in 0..40 {
        names.insert(format!("{number:0>255}"));
        names.insert(format!("{}{number}", "ü".repeat(120)));
        names.insert(format!("+{number}"));
    }
    // No cluster has one like this.
    world.cluster.borrow_mut().create(&"n".repeat(5000), &["n0"]);
    names.iter().for_each(|name| world.cluster.borrow_mut().create(name, &["n0"]));
    world.run_for(Time::ZERO);
    world.cluster.borrow_mut().indices.remove(&"n".repeat(5000));
    world.check();
    assert!(world.count("details of indices") > 10);
}

#[test]
fn of_very_many_indices_only_the_first_are_loaded_and_those_that_are_wanted() {
    let mut world = World::new(2);
    fill(&world, 20_100);
    world.cluster.borrow_mut().alias("m20050", "x", json!({}));
    world.run_for(INTERVAL);
    let (first, beyond) = ("m00007", "m20090");
    for worker in [0, 1] {
        world.check_one(worker, true);
        assert!(world.route(worker, first, "1").is_some() && world.route(worker, "i", "1").is_some());
        assert_eq!((world.route(worker, beyond, "1"), world.route(worker, "x", "1")), (None, None));
    }
    // Whoever wants it asks for it, even if it has never asked anything before.
    for (worker, name) in [(1, beyond), (0, "x")] {
        world.forget();
        world.workers[worker].borrow_mut().cache.want(name);
        world.workers[worker].borrow_mut().cache.hurry(world.now);
        world.run_for(INTERVAL);
        assert!(world.route(0, name, "1").is_some() && world.route(1, name, "1").is_some(), "{name}");
        assert_eq!(world.details().len(), 1);
    }
    // And from then on it is followed.
    world.cluster.borrow_mut().change(beyond, |index| index.shards = vec![super::cluster::Shard::On("n2")]);
    world.run_for(INTERVAL);
    assert_eq!(world.route(0, beyond, "1").as_deref(), Some("up-es-2"));
}
