use std::cell::RefCell;
use std::rc::Rc;

use super::super::StateQuery;
use super::cluster::Shard;
use super::world::{CONFIG, Fate, INTERVAL, PATIENCE, Worker, World};
use crate::Time;

const SECOND: Time = Time::from_secs(1);

/// The least time between two cycles that are hinted at.
const HURRY: Time = SECOND;

/// Two workers that know the cluster. Then a node joins, j moves to it, and the first worker looks at that until it asks
/// for details. For so long no answer comes that the other one may take the lease.
fn overtaken() -> World {
    let mut world = World::settled(2);
    world.now += INTERVAL;
    world.cluster.borrow_mut().nodes.insert("n3".to_owned(), "es-3".to_owned());
    world.cluster.borrow_mut().change("j", |index| index.shards = vec![Shard::On("n3")]);
    world.stop_at(0, "details of indices");
    set_alive(&world, 0, false);
    world.run_for(Time::ZERO);
    world.now += PATIENCE + SECOND;
    world
}

fn worker(world: &World, number: usize) -> Rc<RefCell<Worker>> {
    Rc::clone(&world.workers[number])
}

fn set_alive(world: &World, number: usize, is_alive: bool) {
    world.workers[number].borrow_mut().is_alive = is_alive;
}

#[test]
fn who_lost_the_lease_asks_again_for_what_nobody_was_told() {
    let mut world = overtaken();
    world.stop_at(1, "version");
    set_alive(&world, 1, false);
    // All that it finds is right, and is not its to tell any more.
    set_alive(&world, 0, true);
    world.answer(0);
    world.run_for(PATIENCE + INTERVAL);
    world.check();
}

#[test]
fn what_was_found_without_the_lease_is_not_mixed_with_what_others_found() {
    let mut world = overtaken();
    // The other one gives the number of the new node to another, and comes no further.
    world.cluster.borrow_mut().nodes.insert("a4".to_owned(), "es-4".to_owned());
    world.run_with(Time::ZERO, |_, query| match query {
        StateQuery::Details(_) => Fate::With(503, Vec::new()),
        _ => Fate::Answered,
    });
    set_alive(&world, 0, true);
    world.answer(0);
    while world.workers[0].borrow_mut().step(world.now) {
        assert_ne!(world.route(0, "j", "1").as_deref(), Some("up-es-4"));
    }
    world.run_for(INTERVAL * 2);
    world.check();
}

#[test]
fn what_was_written_without_the_lease_is_taken_for_nothing_else() {
    let mut world = World::settled(3);
    set_alive(&world, 2, false);
    world.now += INTERVAL;
    world.cluster.borrow_mut().nodes.insert("n3".to_owned(), "es-3".to_owned());
    world.cluster.borrow_mut().version += 1;
    world.stop_at(0, "settings");
    set_alive(&world, 0, false);
    world.run_for(Time::ZERO);
    world.now += PATIENCE + SECOND;
    world.answer(0);
    // The first one has just read that the lease is its own when the other one gives its new node's number to another.
    let (second, cluster, now) = (worker(&world, 1), Rc::clone(&world.cluster), world.now);
    world.memory.after_read(".lease", move || {
        cluster.borrow_mut().nodes.insert("a4".to_owned(), "es-4".to_owned());
        cluster.borrow_mut().change("j", |index| index.shards = vec![Shard::On("a4")]);
        second.borrow_mut().run(now, &cluster, |_| Fate::Answered);
    });
    worker(&world, 0).borrow_mut().run(now, &world.cluster, |_| Fate::Answered);
    assert_eq!(world.route(1, "j", "1").as_deref(), Some("up-es-4"));
    // Now a part that the first has written stands beside one of the other's.
    while world.workers[2].borrow_mut().step(now) {
        assert_ne!(world.route(2, "j", "1").as_deref(), Some("up-es-3"));
        if world.workers[2].borrow_mut().waits.take().is_some() {
            world.answer(2);
        }
    }
    world.run_for(INTERVAL * 2);
    world.check();
}

#[test]
fn no_table_is_made_while_parts_are_taken_over() {
    let mut world = World::settled(2);
    world.now += INTERVAL;
    world.cluster.borrow_mut().change("j", |_| ());
    world.cluster.borrow_mut().uuid = "another".to_owned();
    worker(&world, 0).borrow_mut().run(world.now, &world.cluster, |_| Fate::Answered);
    // Something asks for a table after each step.
    for number in 0.. {
        let second = worker(&world, 1);
        let upstream = second.borrow_mut().upstreams.intern(&format!("no-{number}")).unwrap();
        second.borrow_mut().cache.miss(upstream);
        let steps = second.borrow_mut().step(world.now);
        world.check_one(1, false);
        if !steps {
            assert!(number > 3, "{number} steps");
            break;
        }
    }
    assert_eq!(world.workers[1].borrow().asked, []);
}

#[test]
fn a_part_that_is_lost_is_missed_by_nobody_until_it_is_found_anew() {
    let mut world = World::settled(2);
    let before = world.memory.keys();
    let bucket = |world: &World| world.memory.keys().into_iter().find(|key| !before.contains(key)).unwrap();
    world.cluster.borrow_mut().create("k", &["n2"]);
    world.run_for(INTERVAL);
    world.check();
    world.forget();
    // It changes, and what is told of it is lost before the other one sees it.
    world.cluster.borrow_mut().change("k", |_| ());
    world.now += INTERVAL;
    let first = worker(&world, 0);
    first.borrow_mut().run(world.now, &world.cluster, |_| Fate::Answered);
    world.memory.lose(&bucket(&world));
    let second = worker(&world, 1);
    while second.borrow_mut().step(world.now) {
        world.check_one(1, false);
        if second.borrow_mut().waits.take().is_some() {
            world.answer(1);
        }
    }
    assert!(second.borrow().asked.contains(&StateQuery::Overview), "{:?}", second.borrow().asked);
    world.check();
}

#[test]
fn a_part_that_is_lost_and_empty_by_now_is_missed_by_nobody_later() {
    let mut world = World::settled(1);
    let before = world.memory.keys();
    world.cluster.borrow_mut().create("k", &["n2"]);
    world.run_for(INTERVAL);
    let bucket = world.memory.keys().into_iter().find(|key| !before.contains(key)).unwrap();
    world.memory.lose(&bucket);
    set_alive(&world, 0, false);
    world.cluster.borrow_mut().delete("k");
    for asks in [true, false] {
        world.forget();
        world.join(CONFIG);
        world.run_for(INTERVAL);
        world.check();
        assert_eq!(world.count("overview") > 0, asks);
        set_alive(&world, world.workers.len() - 1, false);
    }
}

#[test]
fn whoever_takes_a_lease_that_lists_nothing_tells_all_that_it_knows() {
    for changes in [true, false] {
        let mut world = World::settled(2);
        let lease = world.memory.keys().into_iter().find(|key| key.ends_with(".lease")).unwrap();
        world.memory.lose(&lease);
        // Who comes now knows of nothing that was published, and dies with a lease that says so.
        let third = world.join(CONFIG);
        world.stop_at(third, "overview");
        set_alive(&world, third, false);
        if changes {
            world.cluster.borrow_mut().nodes.insert("n3".to_owned(), "es-3".to_owned());
            world.cluster.borrow_mut().change("j", |index| index.shards = vec![Shard::On("n3")]);
        }
        world.run_for(PATIENCE + INTERVAL);
        world.check();
        // One of the two has told of i too, although it did not change.
        world.forget();
        world.join(CONFIG);
        world.run_for(Time::ZERO);
        world.check();
        assert_eq!(world.asked(), []);
    }
}

#[test]
fn another_numbering_of_which_not_all_is_told_yet_leaves_the_table_as_it_was() {
    let mut world = World::settled(2);
    world.now += INTERVAL;
    world.cluster.borrow_mut().change("j", |_| ());
    world.cluster.borrow_mut().uuid = "another".to_owned();
    world.stop_at(0, "details of indices");
    world.answer(0);
    // Reads it, notes that it is all, and tells the first parts.
    (0..2).for_each(|_| assert!(world.workers[0].borrow_mut().step(world.now)));
    worker(&world, 1).borrow_mut().run(world.now, &world.cluster, |_| Fate::Answered);
    world.check();
    world.run_for(INTERVAL);
    world.check();
    assert_eq!(world.count("overview"), 1);
}

#[test]
fn a_store_that_refuses_keeps_nobody_busy() {
    for kind in ["", "version", "overview", "settings", "details of indices"] {
        let mut world = if kind.is_empty() { World::new(2) } else { World::settled(2) };
        if !kind.is_empty() {
            world.now += INTERVAL;
            world.cluster.borrow_mut().create("k", &["n2"]);
            world.stop_at(0, kind);
        }
        world.memory.refuse(true);
        if !kind.is_empty() {
            world.answer(0);
        }
        world.forget();
        // No time passes for as long as anything is due.
        world.run_for(INTERVAL * 4);
        let pauses: usize = world.workers.iter().map(|worker| worker.borrow().pauses).sum();
        assert!(pauses < 200, "{kind}: {pauses} steps");
        world.memory.refuse(false);
        world.run_for(PATIENCE + INTERVAL);
        world.check();
    }
}

#[test]
fn whoever_hurries_leaves_others_a_gap_after_a_cycle_that_took_long() {
    let mut world = World::settled(2);
    worker(&world, 0).borrow_mut().cache.hurry(world.now);
    world.stop_at(0, "version");
    world.now += HURRY * 3;
    for number in [0, 1] {
        worker(&world, number).borrow_mut().cache.hurry(world.now);
    }
    world.answer(0);
    world.run_for(Time::ZERO);
    let asked = |world: &World| [0, 1].map(|number| world.workers[number].borrow().asked.len());
    assert_eq!(asked(&world)[0], 1, "it asks again at once");
    world.run_for(HURRY - HURRY / 10);
    assert_eq!(asked(&world)[1], 1, "the other one had no cycle");
}

#[test]
fn anothers_cycle_lets_nobody_hurry_more_often() {
    let mut world = World::settled(2);
    // One cycle that is hinted at, and a reason for another.
    worker(&world, 0).borrow_mut().cache.hurry(world.now);
    world.run_for(Time::ZERO);
    worker(&world, 0).borrow_mut().cache.hurry(world.now);
    worker(&world, 1).borrow_mut().cache.hurry(world.now);
    world.run_for(HURRY - HURRY / 10);
    let asked = [0, 1].map(|number| world.workers[number].borrow().asked.len());
    assert_eq!(asked, [1, 1]);
    world.run_for(HURRY);
    assert_eq!(world.workers[0].borrow().asked.len(), 2);
}
