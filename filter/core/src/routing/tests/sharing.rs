use std::rc::Rc;

use serde_json::json;

use super::super::{PollEvent, StateCache, StateQuery};
use super::cluster::Shard;
use super::harness::{CONFIG, Harness, INTERVAL, PATIENCE, QueryOutcome, SECOND};
use super::memory::Corruption;
use crate::Time;
use crate::config::Config;

#[test]
fn one_worker_polls_and_the_others_apply_its_results() {
    let mut harness = Harness::new(4);
    harness.follow_for(INTERVAL);
    let asked = ["overview", "settings", "details of indices", "aliases"].map(|kind| harness.count(kind));
    assert_eq!(asked, [1, 1, 1, 0]);
    harness.forget();
    for cycle in 1..=10 {
        harness.follow(|cluster| {
            cluster.change("j", |index| index.shards = vec![Shard::On(["n0", "n1", "n2"][cycle % 3])])
        });
        assert_eq!([harness.count("overview"), harness.count("details of indices")], [cycle, cycle]);
    }
    let loaded: usize = (0..4)
        .map(|worker| harness.worker(worker).events.iter().filter(|events| **events == PollEvent::Loaded).count())
        .sum();
    let taken = harness.workers.iter().filter(|worker| worker.borrow().events.contains(&PollEvent::TakenOver)).count();
    assert_eq!((loaded, taken >= 3), (10, true));
}

#[test]
fn a_later_worker_does_not_poll_either() {
    let mut harness = Harness::settled(1);
    harness.cluster().settings = json!({"persistent": {"x": "y"}});
    harness.cluster().alias("i", "x", json!({}));
    harness.run_for(INTERVAL);
    let late = harness.join(CONFIG);
    harness.follow_for(SECOND);
    let own = Some((&br#"{"persistent":{"x":"y"}}"#[..], false));
    assert_eq!(harness.worker(0).cache.new_settings(), own, "the first worker read them");
    let mut late = harness.worker(late);
    assert_eq!((late.asked.len(), late.events.as_slice()), (0, &[PollEvent::TakenOver][..]));
    assert_eq!(late.cache.new_settings(), Some((&br#"{"persistent":{"x":"y"}}"#[..], true)));
    assert_eq!(late.cache.new_settings(), None);
}

#[test]
fn configurations_with_the_same_queries_share() {
    let mut harness = Harness::settled(1);
    let other =
        harness.join(r#"{"coordinator":"es","nodes":{"upstream":"node-{id}"},"cluster_state":{"refresh":"1s"}}"#);
    harness.run_for(Time::ZERO);
    assert_eq!(harness.worker(other).asked, []);
    assert_eq!(harness.route(other, "j", "1").as_deref(), Some("node-n1"));
    for config in [
        r#"{"coordinator":"other"}"#,
        r#"{"coordinator":"es","credentials":{"authorization":"ApiKey x"}}"#,
        r#"{"coordinator":"es","nodes":{"upstream":"node-{http_port}"}}"#,
    ] {
        let other = harness.join(config);
        harness.run_for(Time::ZERO);
        assert!(harness.worker(other).asked.contains(&StateQuery::Overview), "{config}");
    }
    assert_eq!(harness.route(4, "j", "1").as_deref(), Some("node-9201"));
}

#[test]
fn workers_with_other_queries_publish_under_other_keys() {
    let keys = |config: &str| {
        let mut harness = Harness::new(0);
        harness.join(config);
        harness.run_for(INTERVAL);
        harness.memory.keys()
    };
    let [own, others] = [CONFIG, r#"{"coordinator":"other","nodes":{"upstream":"up-{name}"}}"#].map(keys);
    assert!(own.len() > 2 && own.len() == others.len(), "{own:?}");
    for key in own {
        assert!(key.starts_with("bulk_reshuffle.state.") && !others.contains(&key), "{key}");
    }
}

#[test]
fn without_shared_data_each_worker_polls() {
    let mut harness = Harness::new(0);
    (0..3).for_each(|_| {
        harness.join_alone();
    });
    harness.follow_for(INTERVAL);
    assert_eq!(harness.count("overview"), 3);
    harness.follow(|cluster| cluster.create("k", &["n0"]));
    assert_eq!(harness.count("overview"), 6);
}

#[test]
fn a_worker_that_dies_in_a_cycle_is_replaced_after_its_patience() {
    for kind in ["overview", "settings", "details of indices"] {
        let mut harness = Harness::new(2);
        harness.stop_at(0, kind);
        harness.worker(0).is_alive = false;
        harness.run_for(PATIENCE - SECOND);
        assert_eq!(harness.worker(1).asked, [], "{kind}");
        harness.run_for(SECOND * 2);
        assert!(harness.worker(1).asked.contains(&StateQuery::Overview), "{kind}");
        harness.check();
    }
}

#[test]
fn a_worker_that_dies_while_publishing_is_replaced() {
    let mut harness = Harness::new(2);
    // Some of them are published later than the cluster.
    for alias in ["x", "y", "z"] {
        harness.cluster().alias("i", alias, json!({}));
    }
    harness.stop_at(0, "details of indices");
    harness.answer(0);
    {
        let mut first = harness.worker(0);
        // It reads the answer, finishes, and publishes a part.
        (0..2).for_each(|_| assert!(first.step(harness.now)));
        assert!(first.table.is_some(), "it knows everything");
        first.is_alive = false;
    }
    harness.run_for(PATIENCE - SECOND);
    assert_eq!(harness.worker(1).asked, []);
    harness.follow_for(SECOND * 2);
    assert!(harness.worker(1).asked.contains(&StateQuery::Overview), "not everything was published");
}

#[test]
fn a_slow_cluster_does_not_move_the_lease() {
    let mut harness = Harness::new(2);
    for kind in ["overview", "settings", "details of indices"] {
        harness.stop_at(0, kind);
        harness.worker(0).is_alive = false;
        harness.run_for(PATIENCE - SECOND * 2);
        harness.answer(0);
        harness.worker(0).is_alive = true;
    }
    harness.follow_for(SECOND);
    assert_eq!(harness.worker(1).asked, []);
}

#[test]
fn a_waiting_worker_checks_only_now_and_then() {
    let mut harness = Harness::new(2);
    harness.stop_at(0, "overview");
    harness.worker(0).is_alive = false;
    harness.run_for(Time::ZERO);
    let second = Rc::clone(&harness.workers[1]);
    let due = second.borrow().cache.due().unwrap();
    assert!(due >= harness.now + INTERVAL / 20, "it is due again in {:?}", due - harness.now);
    // The same holds for a worker with every reason to poll soon.
    second.borrow_mut().cache.poll_soon(harness.now);
    harness.run_for(Time::ZERO);
    assert!(second.borrow().cache.due().unwrap() >= harness.now + INTERVAL / 20);
}

#[test]
fn one_of_two_workers_due_at_the_same_time_polls() {
    for is_new in [true, false] {
        let mut harness = Harness::new(2);
        if !is_new {
            harness.run_for(INTERVAL);
            harness.forget();
            harness.now += INTERVAL * 2;
        }
        // The second worker is due right after the first has read the lease, and before it writes it.
        let (other, cluster, now) = (Rc::clone(&harness.workers[1]), Rc::clone(&harness.cluster), harness.now);
        harness.memory.after_read(".lease", move || {
            let mut other = other.borrow_mut();
            while other.waits.is_none() && other.step(now) {}
            assert!(other.waits.is_some(), "{}", cluster.borrow().version);
        });
        {
            let mut first = harness.worker(0);
            while first.waits.is_none() && first.step(now) && first.cache.due().is_some_and(|due| due <= now) {}
            assert_eq!(first.waits, None, "both sent a query");
        }
        harness.follow_for(INTERVAL);
        assert_eq!(harness.worker(0).asked, []);
    }
}

#[test]
fn a_replaced_worker_applies_its_successors_results() {
    // Both number a node that the other does not know.
    let mut harness = Harness::settled(2);
    harness.run_for(INTERVAL);
    harness.forget();
    harness.now += INTERVAL;
    harness.cluster().place_on_new("j", "n3", "es-3");
    harness.stop_at(0, "settings");
    harness.worker(0).is_alive = false;
    harness.cluster().nodes.remove("n3");
    harness.cluster().place_on_new("j", "n4", "es-4");
    harness.cluster().create("k", &["n4"]);
    harness.follow_for(PATIENCE + SECOND);
    // It returns, and has yet to publish the details that it queried.
    harness.worker(0).is_alive = true;
    harness.answer(0);
    let mut tables = 0;
    for _ in 0..1000 {
        let mut first = harness.worker(0);
        let before = first.table.clone();
        if !first.step(harness.now) {
            break;
        }
        if let Some(query) = first.waits.take() {
            let body = harness.cluster().answer(&query.path()).to_string();
            first.cache.answered(200, body.into_bytes(), harness.now);
        }
        let is_new = first.table.as_ref().zip(before.as_ref()).is_some_and(|(now, before)| !Rc::ptr_eq(now, before));
        drop(first);
        if is_new {
            tables += 1;
            harness.check_one(0, true);
        }
    }
    assert!(tables > 0);
    harness.follow_for(INTERVAL);
}

#[test]
fn a_worker_replaced_during_a_write_does_no_harm() {
    let mut harness = Harness::settled(2);
    harness.now += INTERVAL;
    harness.cluster().place_on_new("j", "n3", "es-3");
    harness.stop_at(0, "details of indices");
    // The second worker's patience ends just when the first has read that it has the lease.
    let (second, cluster, now) = (Rc::clone(&harness.workers[1]), Rc::clone(&harness.cluster), harness.now);
    second.borrow_mut().run(now, &cluster, |_| QueryOutcome::Answered);
    harness.answer(0);
    assert!(harness.worker(0).step(now));
    let cluster = Rc::clone(&harness.cluster);
    harness.memory.after_read(".lease", move || {
        cluster.borrow_mut().nodes.insert("a4".to_owned(), "es-4".to_owned());
        cluster.borrow_mut().change("j", |index| index.shards = vec![Shard::On("a4")]);
        second.borrow_mut().run(now + PATIENCE + SECOND, &cluster, |_| QueryOutcome::Answered);
    });
    harness.now += PATIENCE + SECOND;
    for _ in 0..3 {
        harness.run_for(INTERVAL / 10);
        harness.check_one(0, true);
        harness.check_one(1, true);
    }
    harness.follow_for(INTERVAL * 2);
}

/// Envoy's main thread has a VM too, and gets no requests.
#[test]
fn a_worker_without_requests_leaves_the_polls_to_others() {
    let mut harness = Harness::settled(2);
    let config = Config::read(CONFIG.as_bytes()).unwrap();
    let mut idle = StateCache::new(&config, 77, Box::new(harness.memory.clone()));
    idle.wake(harness.now);
    harness.worker(1).cache = idle;
    harness.run_for(20 * INTERVAL);
    assert_eq!(harness.worker(1).asked, []);
    assert!(harness.worker(0).asked.len() >= 20);
    harness.follow(|cluster| cluster.create("k", &["n2"]));
    harness.worker(0).is_alive = false;
    harness.follow(|cluster| cluster.delete("k"));
    assert!(!harness.worker(1).asked.is_empty(), "nobody else polls");
}

/// Returns corruptions of the value of a key.
fn corruptions() -> Vec<(&'static str, Corruption)> {
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

/// Returns the keys of all published parts of the state: the lease, the cluster, i and j, and an alias of i.
fn keys() -> Vec<String> {
    let mut harness = Harness::settled(1);
    harness.cluster().alias("i", "x", json!({}));
    harness.run_for(INTERVAL);
    let mut keys = harness.memory.keys();
    keys.retain(|key| !key.contains("upstreams"));
    assert_eq!(keys.len(), 5);
    keys
}

#[test]
fn a_lost_or_corrupt_value_makes_a_worker_poll() {
    let keys = keys();
    for (what, corrupt) in corruptions() {
        for key in keys.iter().map(Some).chain([None]) {
            let mut harness = Harness::settled(1);
            harness.cluster().alias("i", "x", json!({}));
            harness.run_for(INTERVAL);
            match key {
                Some(key) if what == "nothing" => harness.memory.lose(key),
                Some(key) => harness.memory.put(key, &corrupt(&harness.memory.get(key))),
                None => keys.iter().for_each(|key| harness.memory.put(key, &corrupt(&harness.memory.get(key)))),
            }
            harness.join(CONFIG);
            harness.follow_for(INTERVAL);
            let asked: Vec<String> = harness.worker(1).asked.iter().map(ToString::to_string).collect();
            assert!(asked.contains(&"overview".to_owned()), "{what} {key:?} {asked:?}");
            // The others then need no poll of their own.
            harness.forget();
            harness.join(CONFIG);
            harness.follow_for(Time::ZERO);
            assert_eq!(harness.worker(2).asked, [], "{what} {key:?}");
        }
    }
}

#[test]
fn with_corrupt_shared_data_each_worker_polls_at_a_limited_rate() {
    for (what, corrupt) in corruptions() {
        let mut harness = Harness::new(3);
        harness.memory.corrupt(corrupt);
        harness.follow_for(INTERVAL * 2);
        harness.forget();
        harness.cluster().create("k", &["n2"]);
        harness.cluster().alias("i", "x", json!({}));
        harness.follow_for(INTERVAL * 2);
        // At most five polls in an interval.
        assert!(harness.count("overview") <= 30, "{what}: {} times", harness.count("overview"));
    }
}

#[test]
fn a_value_lost_after_all_workers_read_it_does_no_harm() {
    for key in &keys() {
        let mut harness = Harness::settled(3);
        harness.memory.lose(key);
        harness.follow_for(INTERVAL * 2);
        harness.cluster().alias("i", "x", json!({}));
        harness.cluster().place_on_new("j", "a", "es-3");
        harness.follow_for(INTERVAL * 2);
    }
}

#[test]
fn a_lease_lost_during_a_cycle_does_no_harm() {
    for kind in ["overview", "settings", "details of indices"] {
        let mut harness = Harness::settled(3);
        harness.now += INTERVAL;
        harness.cluster().place_on_new("j", "a", "es-3");
        harness.stop_at(0, kind);
        let lease = harness.memory.keys().into_iter().find(|key| key.ends_with(".lease")).unwrap();
        harness.memory.lose(&lease);
        for worker in [1, 2] {
            harness.run_one(worker);
        }
        harness.cluster().place_on_new("j", "A", "es-4");
        harness.answer(0);
        harness.follow_for(INTERVAL * 2);
    }
}

#[test]
fn a_hurried_worker_gets_its_cycle_while_others_poll() {
    let mut harness = Harness::settled(3);
    harness.run_for(SECOND);
    harness.cluster().create("k", &["n2"]);
    harness.poll_soon(2);
    harness.run_for(Time::ZERO);
    assert!(harness.route(2, "k", "1").is_some());
    assert_eq!(harness.worker(2).asked[0], StateQuery::Version);
}
