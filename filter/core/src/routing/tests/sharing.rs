use std::rc::Rc;

use serde_json::json;

use super::super::{PollEvent, StateQuery};
use super::cluster::Shard;
use super::memory::Spoil;
use super::world::{CONFIG, Fate, INTERVAL, PATIENCE, World};
use crate::Time;

const SECOND: Time = Time::from_secs(1);

#[test]
fn one_worker_asks_and_the_others_take_over() {
    let mut world = World::new(4);
    world.run_for(INTERVAL);
    world.check();
    let asked = ["overview", "settings", "details of indices", "aliases"].map(|kind| world.count(kind));
    assert_eq!(asked, [1, 1, 1, 0]);
    world.forget();
    for cycle in 1..=10 {
        world.cluster.borrow_mut().change("j", |index| index.shards = vec![Shard::On(["n0", "n1", "n2"][cycle % 3])]);
        world.run_for(INTERVAL);
        world.check();
        assert_eq!([world.count("overview"), world.count("details of indices")], [cycle, cycle]);
    }
    let loaded: usize = (0..4)
        .map(|worker| {
            world.workers[worker].borrow().events.iter().filter(|events| **events == PollEvent::Loaded).count()
        })
        .sum();
    let taken = world.workers.iter().filter(|worker| worker.borrow().events.contains(&PollEvent::TakenOver)).count();
    assert_eq!((loaded, taken >= 3), (10, true));
}

#[test]
fn who_comes_later_asks_nothing_either() {
    let mut world = World::settled(1);
    world.cluster.borrow_mut().settings = json!({"persistent": {"x": "y"}});
    world.cluster.borrow_mut().alias("i", "x", json!({}));
    world.run_for(INTERVAL);
    let late = world.join(CONFIG);
    world.run_for(SECOND);
    world.check();
    let mut late = world.workers[late].borrow_mut();
    assert_eq!((late.asked.len(), late.events.as_slice()), (0, &[PollEvent::TakenOver][..]));
    assert_eq!(late.cache.new_settings(), Some(&br#"{"persistent":{"x":"y"}}"#[..]));
    assert_eq!(late.cache.new_settings(), None);
}

#[test]
fn another_configuration_shares_if_it_asks_the_same() {
    let mut world = World::settled(1);
    let other = world.join(r#"{"coordinator":"es","nodes":{"upstream":"node-{id}"},"cluster_state":{"refresh":"1s"}}"#);
    world.run_for(Time::ZERO);
    assert_eq!(world.workers[other].borrow().asked, []);
    assert_eq!(world.route(other, "j", "1").as_deref(), Some("node-n1"));
    for config in [
        r#"{"coordinator":"other"}"#,
        r#"{"coordinator":"es","credentials":{"authorization":"ApiKey x"}}"#,
        r#"{"coordinator":"es","nodes":{"upstream":"node-{http_port}"}}"#,
    ] {
        let other = world.join(config);
        world.run_for(Time::ZERO);
        assert_eq!(world.workers[other].borrow().asked[0], StateQuery::Overview, "{config}");
    }
    assert_eq!(world.route(4, "j", "1").as_deref(), Some("node-9201"));
}

#[test]
fn where_nothing_is_shared_each_worker_asks() {
    let mut world = World::new(0);
    (0..3).for_each(|_| {
        world.join_alone();
    });
    world.run_for(INTERVAL);
    world.check();
    assert_eq!(world.count("overview"), 3);
    world.cluster.borrow_mut().create("k", &["n0"]);
    world.run_for(INTERVAL);
    world.check();
    assert_eq!(world.count("overview"), 6);
}

#[test]
fn a_worker_that_dies_in_a_cycle_is_replaced_after_a_while_and_not_before() {
    for kind in ["overview", "settings", "details of indices"] {
        let mut world = World::new(2);
        world.stop_at(0, kind);
        world.workers[0].borrow_mut().is_alive = false;
        world.run_for(PATIENCE - SECOND);
        assert_eq!(world.workers[1].borrow().asked, [], "{kind}");
        world.run_for(SECOND * 2);
        assert_eq!(world.workers[1].borrow().asked[0], StateQuery::Overview, "{kind}");
        world.check();
    }
}

#[test]
fn a_worker_that_dies_while_it_tells_the_others_is_replaced() {
    let mut world = World::new(2);
    // Some of them are told of later than of the cluster.
    for alias in ["x", "y", "z"] {
        world.cluster.borrow_mut().alias("i", alias, json!({}));
    }
    world.stop_at(0, "details of indices");
    world.answer(0);
    {
        let mut first = world.workers[0].borrow_mut();
        // Reads it, notes that it is all, and tells a part.
        (0..2).for_each(|_| assert!(first.step(world.now)));
        assert!(first.table.is_some(), "it knows all");
        first.is_alive = false;
    }
    world.run_for(PATIENCE - SECOND);
    assert_eq!(world.workers[1].borrow().asked, []);
    world.run_for(SECOND * 2);
    world.check();
    assert!(world.workers[1].borrow().asked.contains(&StateQuery::Overview), "what was told was not all");
}

#[test]
fn a_slow_cluster_makes_nobody_take_the_lease() {
    let mut world = World::new(2);
    for kind in ["overview", "settings", "details of indices"] {
        world.stop_at(0, kind);
        world.workers[0].borrow_mut().is_alive = false;
        world.run_for(PATIENCE - SECOND * 2);
        world.answer(0);
        world.workers[0].borrow_mut().is_alive = true;
    }
    world.run_for(SECOND);
    world.check();
    assert_eq!(world.workers[1].borrow().asked, []);
}

#[test]
fn who_waits_for_another_looks_only_now_and_then() {
    let mut world = World::new(2);
    world.stop_at(0, "overview");
    world.workers[0].borrow_mut().is_alive = false;
    world.run_for(Time::ZERO);
    let second = Rc::clone(&world.workers[1]);
    let due = second.borrow().cache.due().unwrap();
    assert!(due >= world.now + INTERVAL / 20, "it is due again in {:?}", due - world.now);
    // The same for one that has every reason to.
    second.borrow_mut().cache.hurry(world.now);
    world.run_for(Time::ZERO);
    assert!(second.borrow().cache.due().unwrap() >= world.now + INTERVAL / 20);
}

#[test]
fn of_two_workers_that_are_due_in_the_same_instant_one_asks() {
    for is_new in [true, false] {
        let mut world = World::new(2);
        if !is_new {
            world.run_for(INTERVAL);
            world.forget();
            world.now += INTERVAL * 2;
        }
        // The other one is due right after the first has read the lease, and before it writes it.
        let (other, cluster, now) = (Rc::clone(&world.workers[1]), Rc::clone(&world.cluster), world.now);
        world.memory.after_read(".lease", move || {
            let mut other = other.borrow_mut();
            while other.waits.is_none() && other.step(now) {}
            assert!(other.waits.is_some(), "{}", cluster.borrow().version);
        });
        {
            let mut first = world.workers[0].borrow_mut();
            while first.waits.is_none() && first.step(now) && first.cache.due().is_some_and(|due| due <= now) {}
            assert_eq!(first.waits, None, "both ask");
        }
        world.run_for(INTERVAL);
        world.check();
        assert_eq!(world.workers[0].borrow().asked, []);
    }
}

#[test]
fn who_was_replaced_takes_over_what_its_successor_knows() {
    // Both number a node that the other does not know.
    let mut world = World::settled(2);
    world.run_for(INTERVAL);
    world.forget();
    world.now += INTERVAL;
    world.cluster.borrow_mut().nodes.insert("n3".to_owned(), "es-3".to_owned());
    world.cluster.borrow_mut().change("j", |index| index.shards = vec![Shard::On("n3")]);
    world.stop_at(0, "settings");
    world.workers[0].borrow_mut().is_alive = false;
    world.cluster.borrow_mut().nodes.remove("n3");
    world.cluster.borrow_mut().nodes.insert("n4".to_owned(), "es-4".to_owned());
    world.cluster.borrow_mut().change("j", |index| index.shards = vec![Shard::On("n4")]);
    world.cluster.borrow_mut().create("k", &["n4"]);
    world.run_for(PATIENCE + SECOND);
    world.check();
    // It comes back to life, and has yet to be told of the details that it asks for.
    world.workers[0].borrow_mut().is_alive = true;
    world.answer(0);
    let mut tables = 0;
    for _ in 0..1000 {
        let mut first = world.workers[0].borrow_mut();
        let before = first.table.clone();
        if !first.step(world.now) {
            break;
        }
        if let Some(query) = first.waits.take() {
            let body = world.cluster.borrow().answer(&query.path()).to_string();
            first.cache.answered(200, body.into_bytes(), world.now);
        }
        let is_new = first.table.as_ref().zip(before.as_ref()).is_some_and(|(now, before)| !Rc::ptr_eq(now, before));
        drop(first);
        if is_new {
            tables += 1;
            world.check_one(0, true);
        }
    }
    assert!(tables > 0);
    world.run_for(INTERVAL);
    world.check();
}

#[test]
fn a_worker_that_is_replaced_while_it_writes_does_no_harm() {
    let mut world = World::settled(2);
    world.now += INTERVAL;
    world.cluster.borrow_mut().nodes.insert("n3".to_owned(), "es-3".to_owned());
    world.cluster.borrow_mut().change("j", |index| index.shards = vec![Shard::On("n3")]);
    world.stop_at(0, "details of indices");
    // Patience is over for the other one just when the first has read that the lease is its own.
    let (second, cluster, now) = (Rc::clone(&world.workers[1]), Rc::clone(&world.cluster), world.now);
    second.borrow_mut().run(now, &cluster, |_| Fate::Answered);
    world.answer(0);
    assert!(world.workers[0].borrow_mut().step(now));
    let cluster = Rc::clone(&world.cluster);
    world.memory.after_read(".lease", move || {
        cluster.borrow_mut().nodes.insert("a4".to_owned(), "es-4".to_owned());
        cluster.borrow_mut().change("j", |index| index.shards = vec![Shard::On("a4")]);
        second.borrow_mut().run(now + PATIENCE + SECOND, &cluster, |_| Fate::Answered);
    });
    world.now += PATIENCE + SECOND;
    for _ in 0..3 {
        world.run_for(INTERVAL / 10);
        world.check_one(0, true);
        world.check_one(1, true);
    }
    world.run_for(INTERVAL * 2);
    world.check();
}

/// What may stand under a key.
fn spoilt() -> Vec<(&'static str, Spoil)> {
    vec![
        ("nothing", |_| Vec::new()),
        ("short", |value| value[..value.len() / 2].to_vec()),
        ("first", |value| value.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == 0)).collect()),
        ("last", |value| value.iter().rev().enumerate().map(|(at, byte)| byte ^ u8::from(at == 0)).rev().collect()),
        ("within", |value| value.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == value.len() / 2)).collect()),
        ("foreign", |_| b"something else".to_vec()),
        ("long", |_| vec![0xff; 40]),
    ]
}

/// The keys of whatever is published: the lease, the cluster, i and j, and an alias of i.
fn keys() -> Vec<String> {
    let mut world = World::settled(1);
    world.cluster.borrow_mut().alias("i", "x", json!({}));
    world.run_for(INTERVAL);
    let keys = world.memory.keys();
    assert_eq!(keys.len(), 5);
    keys
}

#[test]
fn what_is_lost_or_spoilt_under_any_key_leads_to_a_look_of_ones_own() {
    let keys = keys();
    for (what, spoil) in spoilt() {
        for key in keys.iter().map(Some).chain([None]) {
            let mut world = World::settled(1);
            world.cluster.borrow_mut().alias("i", "x", json!({}));
            world.run_for(INTERVAL);
            match key {
                Some(key) if what == "nothing" => world.memory.lose(key),
                Some(key) => world.memory.put(key, &spoil(&world.memory.get(key))),
                None => keys.iter().for_each(|key| world.memory.put(key, &spoil(&world.memory.get(key)))),
            }
            world.join(CONFIG);
            world.run_for(INTERVAL);
            world.check();
            let asked: Vec<String> = world.workers[1].borrow().asked.iter().map(ToString::to_string).collect();
            assert!(asked.contains(&"overview".to_owned()), "{what} {key:?} {asked:?}");
            // Then the others need no look of theirs.
            world.forget();
            world.join(CONFIG);
            world.run_for(Time::ZERO);
            world.check();
            assert_eq!(world.workers[2].borrow().asked, [], "{what} {key:?}");
        }
    }
}

#[test]
fn where_whatever_is_published_is_spoilt_each_worker_looks_for_itself_now_and_then() {
    for (what, spoil) in spoilt() {
        let mut world = World::new(3);
        world.memory.spoil(spoil);
        world.run_for(INTERVAL * 2);
        world.check();
        world.forget();
        world.cluster.borrow_mut().create("k", &["n2"]);
        world.cluster.borrow_mut().alias("i", "x", json!({}));
        world.run_for(INTERVAL * 2);
        world.check();
        // Five times in an interval at most.
        assert!(world.count("overview") <= 30, "{what}: {} times", world.count("overview"));
    }
}

#[test]
fn what_is_lost_while_all_is_known_does_no_harm() {
    for key in &keys() {
        let mut world = World::settled(3);
        world.memory.lose(key);
        world.run_for(INTERVAL * 2);
        world.check();
        world.cluster.borrow_mut().alias("i", "x", json!({}));
        world.cluster.borrow_mut().nodes.insert("a".to_owned(), "es-3".to_owned());
        world.cluster.borrow_mut().change("j", |index| index.shards = vec![Shard::On("a")]);
        world.run_for(INTERVAL * 2);
        world.check();
    }
}

#[test]
fn a_lease_that_is_lost_in_the_middle_of_a_cycle_does_no_harm() {
    for kind in ["overview", "settings", "details of indices"] {
        let mut world = World::settled(3);
        world.now += INTERVAL;
        world.cluster.borrow_mut().nodes.insert("a".to_owned(), "es-3".to_owned());
        world.cluster.borrow_mut().change("j", |index| index.shards = vec![Shard::On("a")]);
        world.stop_at(0, kind);
        let lease = world.memory.keys().into_iter().find(|key| key.ends_with(".lease")).unwrap();
        world.memory.lose(&lease);
        for worker in [1, 2] {
            world.workers[worker].borrow_mut().run(world.now, &world.cluster, |_| Fate::Answered);
        }
        world.cluster.borrow_mut().nodes.insert("A".to_owned(), "es-4".to_owned());
        world.cluster.borrow_mut().change("j", |index| index.shards = vec![Shard::On("A")]);
        world.answer(0);
        world.run_for(INTERVAL * 2);
        world.check();
    }
}

#[test]
fn whoever_hurries_gets_its_cycle_although_others_ask() {
    let mut world = World::settled(3);
    world.run_for(SECOND);
    world.cluster.borrow_mut().create("k", &["n2"]);
    world.workers[2].borrow_mut().cache.hurry(world.now);
    world.run_for(Time::ZERO);
    assert!(world.route(2, "k", "1").is_some());
    assert_eq!(world.workers[2].borrow().asked[0], StateQuery::Version);
}
