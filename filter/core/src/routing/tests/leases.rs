use std::rc::Rc;

use super::super::StateQuery;
use super::cluster::Shard;
use super::harness::{CONFIG, Harness, INTERVAL, PATIENCE, QueryOutcome, SECOND};
use crate::Time;

/// The shortest time between two cycles caused by hints.
const HURRY: Time = SECOND;

/// Two workers know the cluster. Then a node joins and j moves to it. The first worker polls until it queries details.
/// No answer arrives until the second worker may take the lease.
fn overtaken() -> Harness {
    let mut harness = Harness::settled(2);
    harness.now += INTERVAL;
    harness.cluster().place_on_new("j", "n3", "es-3");
    harness.stop_at(0, "details of indices");
    set_alive(&harness, 0, false);
    harness.run_for(Time::ZERO);
    harness.now += PATIENCE + SECOND;
    harness
}

fn set_alive(harness: &Harness, number: usize, is_alive: bool) {
    harness.worker(number).is_alive = is_alive;
}

#[test]
fn a_worker_that_lost_the_lease_repeats_unpublished_queries() {
    let mut harness = overtaken();
    harness.stop_at(1, "version");
    set_alive(&harness, 1, false);
    // All that it finds is correct, but it may no longer publish it.
    set_alive(&harness, 0, true);
    harness.answer(0);
    harness.follow_for(PATIENCE + INTERVAL);
}

#[test]
fn results_found_without_the_lease_do_not_mix_with_others() {
    let mut harness = overtaken();
    // The second worker assigns the new node's number to another node, and stops there.
    harness.cluster().nodes.insert("a4".to_owned(), "es-4".to_owned());
    harness.run_failing(Time::ZERO, "details of indices", || QueryOutcome::With(503, Vec::new()));
    set_alive(&harness, 0, true);
    harness.answer(0);
    while harness.worker(0).step(harness.now) {
        assert_ne!(harness.route(0, "j", "1").as_deref(), Some("up-es-4"));
    }
    harness.follow_for(INTERVAL * 2);
}

#[test]
fn parts_written_without_the_lease_are_rejected() {
    let mut harness = Harness::settled(3);
    set_alive(&harness, 2, false);
    harness.now += INTERVAL;
    harness.cluster().nodes.insert("n3".to_owned(), "es-3".to_owned());
    harness.cluster().version += 1;
    harness.stop_at(0, "settings");
    set_alive(&harness, 0, false);
    harness.run_for(Time::ZERO);
    harness.now += PATIENCE + SECOND;
    harness.answer(0);
    // The first worker has just read that it has the lease when the second assigns the new node's number to another.
    let (second, cluster, now) = (Rc::clone(&harness.workers[1]), Rc::clone(&harness.cluster), harness.now);
    harness.memory.after_read(".lease", move || {
        cluster.borrow_mut().nodes.insert("a4".to_owned(), "es-4".to_owned());
        cluster.borrow_mut().change("j", |index| index.shards = vec![Shard::On("a4")]);
        second.borrow_mut().run(now, &cluster, |_| QueryOutcome::Answered);
    });
    harness.run_one(0);
    assert_eq!(harness.route(1, "j", "1").as_deref(), Some("up-es-4"));
    // A part of the first worker is now next to one of the second's.
    harness.step_through(2, |harness| assert_ne!(harness.route(2, "j", "1").as_deref(), Some("up-es-3")));
    harness.follow_for(INTERVAL * 2);
}

#[test]
fn no_table_is_built_while_parts_are_applied() {
    let mut harness = Harness::settled(2);
    harness.now += INTERVAL;
    harness.cluster().change("j", |_| ());
    harness.cluster().uuid = "another".to_owned();
    harness.run_one(0);
    // A table is requested after each step.
    for number in 0.. {
        harness.miss(1, &format!("no-{number}"));
        let steps = harness.worker(1).step(harness.now);
        harness.check_one(1, false);
        if !steps {
            assert!(number > 3, "{number} steps");
            break;
        }
    }
    assert_eq!(harness.worker(1).asked, []);
}

#[test]
fn a_lost_part_does_no_harm_until_it_is_found_again() {
    let mut harness = Harness::settled(2);
    let before = harness.memory.keys();
    let bucket = |harness: &Harness| harness.memory.keys().into_iter().find(|key| !before.contains(key)).unwrap();
    harness.follow(|cluster| cluster.create("k", &["n2"]));
    harness.forget();
    // It changes, and the published part is lost before the second worker reads it.
    harness.cluster().change("k", |_| ());
    harness.now += INTERVAL;
    harness.run_one(0);
    harness.memory.lose(&bucket(&harness));
    harness.step_through(1, |harness| harness.check_one(1, false));
    assert!(harness.worker(1).asked.contains(&StateQuery::Overview));
    harness.check();
}

#[test]
fn a_lost_part_that_is_now_empty_does_no_harm_later() {
    let mut harness = Harness::settled(1);
    let before = harness.memory.keys();
    harness.cluster().create("k", &["n2"]);
    harness.run_for(INTERVAL);
    let bucket = harness.memory.keys().into_iter().find(|key| !before.contains(key)).unwrap();
    harness.memory.lose(&bucket);
    set_alive(&harness, 0, false);
    harness.cluster().delete("k");
    for asks in [true, false] {
        harness.forget();
        harness.join(CONFIG);
        harness.follow_for(INTERVAL);
        assert_eq!(harness.count("overview") > 0, asks);
        set_alive(&harness, harness.workers.len() - 1, false);
    }
}

#[test]
fn a_worker_that_takes_an_empty_lease_publishes_everything() {
    for changes in [true, false] {
        let mut harness = Harness::settled(2);
        let lease = harness.memory.keys().into_iter().find(|key| key.ends_with(".lease")).unwrap();
        harness.memory.lose(&lease);
        // A new worker knows of nothing published, and dies with a lease that says so.
        let third = harness.join(CONFIG);
        harness.stop_at(third, "overview");
        set_alive(&harness, third, false);
        if changes {
            harness.cluster().place_on_new("j", "n3", "es-3");
        }
        harness.follow_for(PATIENCE + INTERVAL);
        // One of the two also publishes i, although it did not change.
        harness.forget();
        harness.join(CONFIG);
        harness.follow_for(Time::ZERO);
        assert_eq!(harness.asked(), []);
    }
}

#[test]
fn a_partly_published_numbering_leaves_the_table_unchanged() {
    let mut harness = Harness::settled(2);
    harness.now += INTERVAL;
    harness.cluster().change("j", |_| ());
    harness.cluster().uuid = "another".to_owned();
    harness.stop_at(0, "details of indices");
    harness.answer(0);
    // It reads the answer, finishes, and publishes the first parts.
    (0..2).for_each(|_| assert!(harness.worker(0).step(harness.now)));
    harness.run_one(1);
    harness.check();
    harness.follow_for(INTERVAL);
    assert_eq!(harness.count("overview"), 1);
}

#[test]
fn a_store_that_refuses_writes_causes_no_busy_loop() {
    for kind in ["", "version", "overview", "settings", "details of indices"] {
        let mut harness = if kind.is_empty() { Harness::new(2) } else { Harness::settled(2) };
        if !kind.is_empty() {
            harness.now += INTERVAL;
            harness.cluster().create("k", &["n2"]);
            harness.stop_at(0, kind);
        }
        harness.memory.refuse(true);
        if !kind.is_empty() {
            harness.answer(0);
        }
        harness.forget();
        // Time does not advance while any action is due.
        harness.run_for(INTERVAL * 4);
        let pauses: usize = harness.workers.iter().map(|worker| worker.borrow().pauses).sum();
        assert!(pauses < 200, "{kind}: {pauses} steps");
        harness.memory.refuse(false);
        harness.follow_for(PATIENCE + INTERVAL);
    }
}

#[test]
fn a_hurried_worker_leaves_a_gap_after_a_long_cycle() {
    let mut harness = Harness::settled(2);
    harness.poll_soon(0);
    harness.stop_at(0, "version");
    harness.now += HURRY * 3;
    for number in [0, 1] {
        harness.poll_soon(number);
    }
    harness.answer(0);
    harness.run_for(Time::ZERO);
    let asked = |harness: &Harness| [0, 1].map(|number| harness.worker(number).asked.len());
    assert_eq!(asked(&harness)[0], 1, "it polls again at once");
    harness.run_for(HURRY - HURRY / 10);
    assert_eq!(asked(&harness)[1], 1, "the other one had no cycle");
}

#[test]
fn another_workers_cycle_does_not_raise_the_rate_of_hints() {
    let mut harness = Harness::settled(2);
    // One cycle is caused by a hint, and there is a reason for another.
    harness.poll_soon(0);
    harness.run_for(Time::ZERO);
    harness.poll_soon(0);
    harness.poll_soon(1);
    harness.run_for(HURRY - HURRY / 10);
    let asked = [0, 1].map(|number| harness.worker(number).asked.len());
    assert_eq!(asked, [1, 1]);
    harness.run_for(HURRY);
    assert_eq!(harness.worker(0).asked.len(), 2);
}
