use std::cell::RefCell;
use std::rc::Rc;

use super::super::{CheckResult, PollEvent, Silence, Unrouted, UpstreamId, hash};
use super::harness::{CONFIG, Harness, INTERVAL, SECOND, Worker};
use crate::Time;

const ALL: [&str; 3] = ["up-es-0", "up-es-1", "up-es-2"];

/// The longest pause between two rounds.
const PAUSE: Time = Time::from_secs(300);

/// Returns the upstreams that all workers have asked, in order of their names.
fn asked(harness: &Harness) -> Vec<String> {
    let mut asked: Vec<_> = harness.workers.iter().flat_map(|worker| worker.borrow().checked.clone()).collect();
    asked.sort();
    asked
}

/// Returns the warnings of all workers.
fn warnings(harness: &Harness) -> Vec<String> {
    let of_worker = |worker: &Rc<RefCell<Worker>>| {
        let worker = worker.borrow();
        let warning = |event: &PollEvent| match event {
            PollEvent::Misled(upstream, check) => Some(check.message(&worker.upstreams.name(*upstream), None)),
            _ => None,
        };
        worker.events.iter().filter_map(warning).collect::<Vec<_>>()
    };
    harness.workers.iter().flat_map(of_worker).collect()
}

/// Returns what each worker knows about an upstream.
fn results(harness: &Harness, upstream: &str) -> Vec<Option<CheckResult>> {
    let of_worker = |number: usize| {
        let mut worker = harness.worker(number);
        let upstream = worker.upstreams.intern(upstream).unwrap();
        worker.cache.check(upstream).map(|check| check.result)
    };
    (0..harness.workers.len()).map(of_worker).collect()
}

/// Returns why each worker does not route to the node of index j.
fn unrouted(harness: &Harness) -> Vec<Option<Unrouted>> {
    let why = |number| harness.worker(number).table.as_ref().unwrap().route("j", Some(hash("1")), None).err();
    (0..harness.workers.len()).map(why).collect()
}

fn mislead(harness: &Harness, upstream: &str, to: Result<&str, Silence>) {
    harness.cluster().misled.insert(upstream.to_owned(), to.map(str::to_owned));
}

#[test]
fn one_worker_asks_each_upstream_once() {
    let mut harness = Harness::new(3);
    harness.run_for(INTERVAL);
    assert_eq!(asked(&harness), ALL);
    assert_eq!(results(&harness, "up-es-1"), [Some(CheckResult::Right); 3]);
    harness.forget();
    harness.run_for(PAUSE - 2 * INTERVAL);
    assert_eq!((asked(&harness), warnings(&harness)), (vec![], vec![]));
    harness.run_for(2 * INTERVAL);
    assert_eq!(asked(&harness), ALL, "Envoy's configuration may have changed");
}

#[test]
fn no_worker_routes_to_an_upstream_that_leads_to_another_node_until_it_is_repaired() {
    let mut harness = Harness::new(3);
    mislead(&harness, "up-es-1", Ok("n2"));
    harness.run_for(INTERVAL);
    assert_eq!(unrouted(&harness), [Some(Unrouted::WrongUpstream); 3]);
    assert_eq!(results(&harness, "up-es-1"), [Some(CheckResult::OtherNode); 3]);
    let expected = "upstream \"up-es-1\": The upstream leads to another node of the cluster. \"es-2\" answers. \
                    Operations for its node go to the coordinator.";
    assert_eq!(warnings(&harness), [expected]);
    harness.forget();
    harness.run_for(PAUSE);
    assert_eq!(unrouted(&harness), [Some(Unrouted::WrongUpstream); 3]);
    assert_eq!(asked(&harness).len(), 4 * ALL.len(), "the pauses double");
    assert_eq!(warnings(&harness), [""; 0], "the same fault is not logged again");
    harness.cluster().misled.clear();
    harness.run_for(PAUSE + INTERVAL);
    assert_eq!(unrouted(&harness), [None; 3]);
    harness.check();
}

/// Its operations would be carried out in another cluster.
#[test]
fn no_worker_routes_to_an_upstream_of_another_cluster() {
    let mut harness = Harness::new(2);
    mislead(&harness, "up-es-1", Ok("stranger"));
    harness.run_for(INTERVAL);
    assert_eq!(results(&harness, "up-es-1"), [Some(CheckResult::OtherCluster); 2]);
    assert_eq!(unrouted(&harness), [Some(Unrouted::WrongUpstream); 2]);
}

/// Envoy chooses one of the coordinator's hosts for each query.
#[test]
fn a_coordinator_whose_hosts_belong_to_several_clusters_is_faulty() {
    let mut harness = Harness::settled(2);
    let result = |worker: &Worker| worker.cache.check(UpstreamId::COORDINATOR).map(|check| check.result);
    let coordinator = |harness: &Harness| [0, 1].map(|worker| result(&harness.worker(worker)));
    assert_eq!(coordinator(&harness), [Some(CheckResult::Right); 2]);
    for cluster in ["foreign", "c", "foreign"] {
        harness.forget();
        harness.follow(|own| own.uuid = cluster.to_owned());
        assert_eq!(coordinator(&harness), [Some(CheckResult::SeveralClusters); 2]);
        assert_eq!(warnings(&harness).len(), 1, "only the worker that polls warns");
        assert!(warnings(&harness)[0].ends_with(CheckResult::SeveralClusters.text()));
    }
    assert!([0, 1].map(|worker| harness.worker(worker).cache.has_faults()).into_iter().all(|is_faulty| is_faulty));
    harness.run_for(PAUSE);
    assert_eq!(coordinator(&harness), [Some(CheckResult::Right); 2], "the cluster was replaced");
    // All that is read afterwards may be of the first cluster.
    harness.cluster().stranger = Some("foreign, too".to_owned());
    harness.run_for(INTERVAL);
    assert_eq!(coordinator(&harness), [Some(CheckResult::SeveralClusters); 2]);
    harness.check();
}

/// A batch that cannot be sent goes to the coordinator anyway.
#[test]
fn an_upstream_that_does_not_answer_is_a_fault_but_is_routed_to() {
    for (silence, result) in [
        (Silence::NoUpstream, CheckResult::NoUpstream),
        (Silence::Unreachable, CheckResult::Unreachable),
        (Silence::NoAnswer, CheckResult::NoAnswer),
    ] {
        let mut harness = Harness::new(2);
        mislead(&harness, "up-es-1", Err(silence));
        harness.run_for(INTERVAL);
        assert_eq!(results(&harness, "up-es-1"), [Some(result); 2]);
        assert_eq!(warnings(&harness), [format!("upstream \"up-es-1\": {}", result.text())]);
        harness.check();
        let worker = harness.worker(0);
        let faulty = worker.cache.faulty_upstreams().map(|upstream| worker.upstreams.name(upstream).to_string());
        assert_eq!(faulty.collect::<Vec<_>>(), ["up-es-1"]);
    }
}

#[test]
fn upstreams_are_asked_again_when_a_node_restarts_or_joins() {
    let mut harness = Harness::settled(2);
    harness.cluster().starts.insert("n1".to_owned(), 1);
    harness.cluster().version += 1;
    harness.run_for(INTERVAL);
    assert_eq!(asked(&harness), ALL);
    harness.forget();
    harness.cluster().place_on_new("j", "n3", "es-3");
    harness.run_for(INTERVAL);
    assert_eq!(asked(&harness), ["up-es-0", "up-es-1", "up-es-2", "up-es-3"]);
    harness.forget();
    harness.follow(|cluster| cluster.create("k", &["n0"]));
    assert_eq!(asked(&harness), [""; 0], "no node has changed");
}

/// Dedicated masters, for example, need no upstream.
#[test]
fn the_upstream_of_a_node_without_primaries_is_not_asked() {
    let mut harness = Harness::new(1);
    harness.cluster().delete("i");
    harness.run_for(INTERVAL);
    assert_eq!(asked(&harness), ["up-es-1"]);
}

#[test]
fn another_worker_begins_again_if_the_one_that_asks_dies() {
    let mut harness = Harness::new(2);
    let asks = |harness: &Harness| {
        harness.worker(0).step(harness.now);
        if harness.worker(0).waits.take().is_some() {
            harness.answer(0);
        }
        harness.worker(0).cache.next_check().is_some()
    };
    assert!((0..100).any(|_| asks(&harness)));
    harness.worker(0).is_alive = false;
    mislead(&harness, "up-es-1", Ok("n2"));
    harness.run_for(SECOND);
    assert_eq!(asked(&harness), [""; 0], "it waits for the other one");
    harness.run_for(4 * INTERVAL);
    assert!(asked(&harness).starts_with(&["up-es-0".to_owned()]), "{:?}", asked(&harness));
    assert_eq!(results(&harness, "up-es-1")[1], Some(CheckResult::OtherNode));
}

#[test]
fn a_lost_or_corrupt_report_makes_a_worker_ask_again() {
    for corrupt in [None, Some(b"something else".as_slice()), Some(b"")] {
        let mut harness = Harness::settled(1);
        let key = harness.memory.keys().into_iter().find(|key| key.contains("upstreams")).unwrap();
        match corrupt {
            Some(value) => harness.memory.put(&key, value),
            None => harness.memory.lose(&key),
        }
        harness.join(CONFIG);
        harness.run_for(INTERVAL);
        assert_eq!(asked(&harness), ALL, "{corrupt:?}");
        assert_eq!(results(&harness, "up-es-1"), [Some(CheckResult::Right); 2]);
    }
}

#[test]
fn a_few_upstreams_are_asked_at_the_same_time() {
    let harness = Harness::new(1);
    let nodes: Vec<&'static str> = (0..24).map(|number| &*format!("n{number}").leak()).collect();
    for node in &nodes {
        harness.cluster().nodes.insert((*node).to_owned(), node.replace('n', "es-"));
    }
    harness.cluster().create("k", &nodes);
    let mut asked = Vec::new();
    for _ in 0..1000 {
        harness.worker(0).step(harness.now);
        if harness.worker(0).waits.take().is_some() {
            harness.answer(0);
        }
        asked.extend(harness.worker(0).cache.next_check());
    }
    assert_eq!(asked.len(), 8);
    let first = asked[0];
    harness.worker(0).cache.check_failed(first, Silence::NoAnswer, harness.now);
    assert!(harness.worker(0).cache.has_check());
}

#[test]
fn without_nodes_check_no_upstream_is_asked() {
    let mut harness = Harness::new(0);
    harness.join(r#"{"coordinator":"es","nodes":{"upstream":"up-{name}","check":false}}"#);
    mislead(&harness, "up-es-1", Ok("n2"));
    harness.follow_for(INTERVAL);
    assert_eq!((asked(&harness), results(&harness, "up-es-1")), (vec![], vec![None]));
}
