use serde_json::json;

use super::super::{RefreshError, StateQuery};
use super::cluster::Shard;
use super::world::{Fate, INTERVAL, World};
use crate::Time;

const SECOND: Time = Time::from_secs(1);

/// One worker that knows nothing, in front of a cluster with an alias.
fn world() -> World {
    let world = World::new(1);
    world.cluster.borrow_mut().alias("i", "x", json!({}));
    world
}

#[test]
fn a_question_that_was_not_sent_is_asked_again_five_times() {
    for kind in ["overview", "aliases", "details of indices"] {
        let mut world = world();
        let mut times = 0;
        world.run_with(Time::ZERO, |_, query| {
            times += usize::from(query.to_string() == kind);
            if query.to_string() == kind && times <= 5 { Fate::NotSent } else { Fate::Answered }
        });
        assert_eq!((times, world.workers[0].borrow().errors().len()), (6, 0), "{kind}");
        world.check();
        let mut world = self::world();
        world.run_with(Time::ZERO, |_, query| if query.to_string() == kind { Fate::NotSent } else { Fate::Answered });
        assert_eq!((world.count(kind), world.workers[0].borrow().errors().len()), (6, 1), "{kind}");
    }
}

#[test]
fn while_an_answer_is_on_its_way_nothing_is_due() {
    let world = World::new(1);
    world.stop_at(0, "overview");
    let mut worker = world.workers[0].borrow_mut();
    assert_eq!((worker.cache.due(), worker.cache.next(world.now + INTERVAL)), (None, None));
}

#[test]
fn a_question_without_an_answer_is_asked_again_once() {
    for kind in ["overview", "aliases"] {
        let mut world = world();
        world.run_with(
            Time::ZERO,
            |_, query| {
                if query.to_string() == kind { Fate::Unanswered } else { Fate::Answered }
            },
        );
        let errors = world.workers[0].borrow().errors();
        assert!(matches!(errors.as_slice(), [RefreshError::Unanswered { query }] if query.to_string() == kind));
        assert_eq!(world.count(kind), 2, "{kind}");
        world.forget();
        world.run_for(INTERVAL - SECOND);
        assert_eq!(world.asked(), [], "not again and again");
        world.run_for(SECOND);
        world.check();
    }
}

#[test]
fn details_that_do_not_come_are_asked_for_with_half_the_names() {
    let mut world = World::new(1);
    for number in 0..100 {
        world.cluster.borrow_mut().create(&format!("i{number}"), &["n0"]);
    }
    world.run_with(Time::ZERO, |_, query| match query {
        StateQuery::Details(names) if names.len() > 30 => Fate::Unanswered,
        _ => Fate::Answered,
    });
    world.check();
    let asked: Vec<usize> = world
        .asked()
        .iter()
        .filter_map(|query| match query {
            StateQuery::Details(names) => Some(names.len()),
            _ => None,
        })
        .collect();
    assert_eq!(asked[..3], [102, 51, 25]);
    assert!(asked[2..].iter().all(|names| *names <= 25) && asked[2..].iter().sum::<usize>() == 102, "{asked:?}");
    assert_eq!(world.workers[0].borrow().errors(), []);
}

#[test]
fn details_that_never_come_end_the_cycle() {
    let mut world = World::new(1);
    world.run_with(Time::ZERO, |_, query| match query {
        StateQuery::Details(_) => Fate::Unanswered,
        _ => Fate::Answered,
    });
    let asked = world.details();
    assert_eq!((world.count("details of indices"), asked.len()), (3, 4), "both, then the first twice");
    assert_eq!(world.workers[0].borrow().errors().len(), 1);
}

#[test]
fn settings_that_cannot_be_read_do_not_stop_routing() {
    let fates: [fn() -> Fate; 5] = [
        || Fate::Unanswered,
        || Fate::NotSent,
        || Fate::With(403, b"{}".to_vec()),
        || Fate::With(200, b"[]".to_vec()),
        || Fate::With(200, Vec::new()),
    ];
    for fate in fates {
        let mut world = world();
        world.run_with(INTERVAL, |_, query| if *query == StateQuery::Settings { fate() } else { Fate::Answered });
        world.check();
        assert_eq!(world.workers[0].borrow().errors().len(), 1);
        assert_eq!(world.workers[0].borrow_mut().cache.new_settings(), None);
        assert_eq!(world.count("overview"), 1);
    }
}

#[test]
fn an_answer_that_is_none_ends_the_cycle_and_nothing_is_forgotten() {
    let fates: [fn() -> Fate; 4] = [
        || Fate::With(503, b"{}".to_vec()),
        || Fate::With(200, b"[]".to_vec()),
        || Fate::With(200, Vec::new()),
        || Fate::With(200, br#"{"metadata":{"indices":{"i":7}},"nodes":1,"version":"#.to_vec()),
    ];
    for kind in ["version", "overview", "aliases", "details of indices"] {
        for fate in fates {
            let mut world = World::settled(3);
            world.cluster.borrow_mut().alias("i", "x", json!({}));
            world.cluster.borrow_mut().create("k", &["n1"]);
            world.run_with(INTERVAL * 3, |_, query| if query.to_string() == kind { fate() } else { Fate::Answered });
            for worker in 0..3 {
                world.check_one(worker, true);
                assert!(world.route(worker, "j", "1").is_some(), "{kind}");
            }
            // Three workers, three intervals; one query of each kind in a cycle.
            assert!((2..=9).contains(&world.count(kind)), "{kind}: {}", world.count(kind));
            world.run_for(INTERVAL);
            world.check();
        }
    }
}

#[test]
fn a_cycle_that_fails_keeps_what_it_has_found() {
    let mut world = World::settled(1);
    world.cluster.borrow_mut().delete("j");
    world.cluster.borrow_mut().create("k", &["n1"]);
    world.run_with(INTERVAL, |_, query| match query {
        StateQuery::Details(_) => Fate::With(503, Vec::new()),
        _ => Fate::Answered,
    });
    assert_eq!(world.workers[0].borrow().errors().len(), 1);
    assert_eq!(world.route(0, "j", "1"), None);
    world.check_one(0, true);
}

#[test]
fn an_older_state_that_could_not_be_read_at_once_leaves_nothing_of_what_was_known() {
    let mut world = World::settled(1);
    world.cluster.borrow_mut().alias("i", "x", json!({}));
    world.run_for(INTERVAL);
    {
        let mut cluster = world.cluster.borrow_mut();
        cluster.change_table("j", |index| index.shards = vec![Shard::On("n2")]);
        cluster.change_table("i", |index| index.aliases = [("y".to_owned(), json!({}))].into());
        cluster.version = 2;
    }
    world.run_with(INTERVAL, |_, query| match query {
        StateQuery::Aliases => Fate::With(503, Vec::new()),
        _ => Fate::Answered,
    });
    // By the next cycle the state's number is higher than the one that is known, and j has the version that it had.
    world.cluster.borrow_mut().version += 10;
    world.run_for(INTERVAL);
    world.check();
}

#[test]
fn a_hint_during_a_cycle_that_fails_does_not_lead_to_another_at_once() {
    let mut world = World::settled(1);
    let hurry = |world: &World| world.workers[0].borrow_mut().cache.hurry(world.now);
    hurry(&world);
    world.stop_at(0, "version");
    hurry(&world);
    world.workers[0].borrow_mut().cache.answered(503, Vec::new(), world.now);
    world.run_for(SECOND / 2);
    assert_eq!(world.count("version"), 1);
    world.run_for(SECOND / 2);
    assert_eq!(world.count("version"), 2);
}

#[test]
fn a_hint_brings_the_next_cycle_at_once_but_not_again_and_again() {
    let mut world = World::settled(1);
    world.run_for(INTERVAL / 2);
    world.forget();
    let hurry = |world: &World| world.workers[0].borrow_mut().cache.hurry(world.now);
    hurry(&world);
    world.run_for(Time::ZERO);
    assert_eq!(world.count("version"), 1);
    for _ in 0..10 {
        hurry(&world);
        world.run_for(INTERVAL / 100);
    }
    assert_eq!(world.count("version"), 1);
    world.run_for(INTERVAL / 5);
    assert_eq!(world.count("version"), 2);
    for _ in 0..100 {
        hurry(&world);
        world.run_for(INTERVAL / 20);
    }
    assert!((24..=28).contains(&world.count("version")), "{} in five intervals", world.count("version"));
}

#[test]
fn a_hint_during_a_cycle_leads_to_another() {
    let mut world = World::new(1);
    world.stop_at(0, "overview");
    world.workers[0].borrow_mut().cache.hurry(world.now);
    world.answer(0);
    world.run_for(INTERVAL / 5);
    assert_eq!(world.count("version"), 1);
}

#[test]
fn an_upstream_that_is_missing_comes_back_after_a_cycle() {
    let mut world = World::settled(2);
    assert!(world.route(0, "j", "1").is_some());
    {
        let mut worker = world.workers[0].borrow_mut();
        let upstream = worker.upstreams.intern("up-es-1").unwrap();
        worker.cache.miss(upstream);
    }
    world.run_for(Time::ZERO);
    world.check_one(0, true);
    world.check_one(1, false);
    assert_eq!(world.route(0, "j", "1"), None);
    world.run_for(INTERVAL);
    world.check();
}
