use std::collections::HashSet;

use serde_json::json;

use super::super::StateQuery;
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
    let overview = world.cluster.borrow().answer(&StateQuery::Overview.path()).to_string().len();
    assert!(overview > 500_000);
    world.run_for(Time::ZERO);
    assert_eq!(world.workers[0].borrow().asked[0], StateQuery::Overview);
    let details = world.count("details of indices");
    // The overview in steps of 256 kB, each answer with details in one, then what was found is told.
    let least = overview / (256 << 10) + details;
    let pauses = world.workers[0].borrow().pauses;
    assert!((least..least + 200).contains(&pauses), "{pauses} pauses, {least} steps at least");
    world.check();
    world.join(CONFIG);
    world.run_for(Time::ZERO);
    world.check();
    // 255 buckets in steps of 32.
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

/// Lets so many seconds pass, in each of which clients ask for so many names that there are not, and for these.
fn guess(world: &mut World, seconds: u64, names: usize, others: &[&str]) {
    for second in 0..seconds {
        {
            let mut worker = world.workers[0].borrow_mut();
            (0..names).for_each(|number| worker.cache.want(&format!("guess-{second}-{number}")));
            others.iter().for_each(|name| worker.cache.want(name));
            worker.cache.hurry(world.now);
        }
        world.run_for(Time::from_secs(1));
    }
}

fn large() -> World {
    let mut world = World::new(1);
    fill(&world, 20_100);
    world.run_for(INTERVAL);
    world.forget();
    world
}

#[test]
fn names_that_there_are_not_cost_ever_fewer_overviews() {
    let mut world = large();
    guess(&mut world, 300, 1, &[]);
    // After 1, 2, 4, … 256 seconds.
    let first = world.count("overview");
    assert!((2..=10).contains(&first), "{first} overviews in five minutes");
    guess(&mut world, 1200, 1, &[]);
    let later = world.count("overview") - first;
    assert!((1..=5).contains(&later), "{later} overviews in twenty minutes");
}

#[test]
fn names_that_there_are_not_cost_no_more_overviews_than_without_them_while_the_state_changes() {
    let mut world = large();
    guess(&mut world, 60, 1, &[]);
    world.forget();
    for _ in 0..60 {
        world.cluster.borrow_mut().version += 1;
        guess(&mut world, 1, 1, &[]);
    }
    let overviews = world.count("overview");
    assert!((10..=14).contains(&overviews), "{overviews} overviews in a minute");
}

#[test]
fn a_new_index_is_found_soon_though_others_ask_for_names_that_there_are_not() {
    let mut world = large();
    guess(&mut world, 300, 1, &[]);
    world.cluster.borrow_mut().create("today", &["n2"]);
    guess(&mut world, INTERVAL.as_secs() + 1, 2000, &["today"]);
    assert_eq!(world.route(0, "today", "1").as_deref(), Some("up-es-2"));
    // And the next at once.
    world.cluster.borrow_mut().create("tomorrow", &["n1"]);
    guess(&mut world, 2, 2000, &["tomorrow"]);
    assert_eq!(world.route(0, "tomorrow", "1").as_deref(), Some("up-es-1"));
}

#[test]
fn an_old_index_is_found_in_the_end_though_others_ask_for_names_that_there_are_not() {
    let mut world = large();
    guess(&mut world, 300, 1, &[]);
    guess(&mut world, 301, 1, &["m20090"]);
    assert!(world.route(0, "m20090", "1").is_some());
}
