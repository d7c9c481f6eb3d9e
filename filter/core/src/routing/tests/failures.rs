use std::rc::Rc;

use serde_json::json;

use super::super::{RefreshError, StateQuery};
use super::cluster::Shard;
use super::harness::{Harness, INTERVAL, QueryOutcome, SECOND};
use crate::Time;

/// Longer than the time in which a query that cannot be sent is repeated soon.
const START: Time = Time::from_secs(3);

/// Creates one worker that knows nothing, and a cluster with an alias.
fn harness() -> Harness {
    let harness = Harness::new(1);
    harness.cluster().alias("i", "x", json!({}));
    harness
}

#[test]
fn an_unsent_query_is_repeated_five_times() {
    for kind in ["version", "overview", "aliases", "details of indices"] {
        let mut harness = harness();
        harness.now += START;
        let mut times = 0;
        harness.run_with(Time::ZERO, |_, query| {
            times += usize::from(query.to_string() == kind);
            if query.to_string() == kind && times <= 5 { QueryOutcome::NotSent } else { QueryOutcome::Answered }
        });
        assert_eq!((times, harness.worker(0).errors().len()), (6, 0), "{kind}");
        harness.check();
        let mut harness = self::harness();
        harness.now += START;
        harness.run_failing(Time::ZERO, kind, || QueryOutcome::NotSent);
        assert_eq!((harness.count(kind), harness.worker(0).errors().len()), (6, 1), "{kind}");
    }
}

#[test]
fn a_poll_fails_without_the_nodes_only_if_upstreams_are_named_after_their_addresses() {
    for (template, is_needed) in [("up-{name}", false), ("up-{http_port}", true)] {
        let mut harness = Harness::new(0);
        let worker = harness.join(&format!(r#"{{"coordinator":"es","nodes":{{"upstream":"{template}"}}}}"#));
        harness.run_failing(INTERVAL, "nodes", || QueryOutcome::Unanswered);
        assert_eq!(harness.worker(worker).table.is_none(), is_needed, "{template}");
        harness.run_for(INTERVAL);
        assert!(harness.worker(worker).table.is_some(), "{template}");
    }
}

/// Envoy starts before it knows the hosts of its clusters. That is not an error yet.
#[test]
fn a_query_that_cannot_be_sent_at_the_start_is_repeated_soon() {
    let mut harness = harness();
    harness.run_failing(SECOND, "version", || QueryOutcome::NotSent);
    assert_eq!(harness.worker(0).errors(), []);
    assert!(harness.count("version") > 20, "{}", harness.count("version"));
    harness.run_for(SECOND / 5);
    harness.check();
    let mut harness = self::harness();
    harness.run_failing(START, "version", || QueryOutcome::NotSent);
    let errors = harness.worker(0).errors();
    let [error] = errors.as_slice() else { panic!("{errors:?}") };
    assert_eq!(error.to_string(), "version: Envoy has no cluster of this name");
    assert_eq!(harness.worker(0).cache.problem(), Some(error));
    harness.follow_for(INTERVAL);
    assert_eq!(harness.worker(0).cache.problem(), None);
}

#[test]
fn no_action_is_due_while_a_query_is_in_flight() {
    let harness = Harness::new(1);
    harness.stop_at(0, "overview");
    let mut worker = harness.worker(0);
    assert_eq!((worker.cache.due(), worker.cache.next(harness.now + INTERVAL)), (None, None));
}

#[test]
fn an_unanswered_query_is_repeated_once() {
    for kind in ["overview", "aliases"] {
        let mut harness = harness();
        harness.run_failing(Time::ZERO, kind, || QueryOutcome::Unanswered);
        let errors = harness.worker(0).errors();
        assert!(
            matches!(errors.as_slice(), [RefreshError { query, problem }] if query.to_string() == kind && problem.starts_with("no answer"))
        );
        assert_eq!(harness.count(kind), 2, "{kind}");
        harness.forget();
        harness.run_for(INTERVAL - SECOND);
        assert_eq!(harness.asked(), [], "no further retry");
        harness.follow_for(SECOND);
    }
}

#[test]
fn an_unanswered_query_for_details_is_repeated_with_half_the_names() {
    let mut harness = Harness::new(1);
    for number in 0..100 {
        harness.cluster().create(&format!("i{number}"), &["n0"]);
    }
    harness.run_with(Time::ZERO, |_, query| match query {
        StateQuery::Details(names) if names.len() > 30 => QueryOutcome::Unanswered,
        _ => QueryOutcome::Answered,
    });
    harness.check();
    let asked: Vec<usize> = harness
        .asked()
        .iter()
        .filter_map(|query| match query {
            StateQuery::Details(names) => Some(names.len()),
            _ => None,
        })
        .collect();
    assert_eq!(asked[..3], [102, 51, 25]);
    assert!(asked[2..].iter().all(|names| *names <= 25) && asked[2..].iter().sum::<usize>() == 102, "{asked:?}");
    assert_eq!(harness.worker(0).errors(), []);
}

#[test]
fn a_cycle_without_details_fails() {
    let mut harness = Harness::new(1);
    harness.run_failing(Time::ZERO, "details of indices", || QueryOutcome::Unanswered);
    let asked = harness.details();
    assert_eq!((harness.count("details of indices"), asked.len()), (3, 4), "both, then the first twice");
    assert_eq!(harness.worker(0).errors().len(), 1);
}

#[test]
fn unreadable_settings_do_not_stop_routing() {
    let outcomes: [fn() -> QueryOutcome; 5] = [
        || QueryOutcome::Unanswered,
        || QueryOutcome::NotSent,
        || QueryOutcome::With(403, b"{}".to_vec()),
        || QueryOutcome::With(200, b"[]".to_vec()),
        || QueryOutcome::With(200, Vec::new()),
    ];
    for outcome in outcomes {
        let mut harness = harness();
        harness.run_with(
            INTERVAL,
            |_, query| if *query == StateQuery::Settings { outcome() } else { QueryOutcome::Answered },
        );
        harness.check();
        assert_eq!(harness.worker(0).errors().len(), 1);
        assert_eq!(harness.worker(0).cache.new_settings(), None);
        assert_eq!(harness.count("overview"), 1);
    }
}

#[test]
fn an_invalid_answer_ends_the_cycle_and_keeps_the_table() {
    let outcomes: [fn() -> QueryOutcome; 4] = [
        || QueryOutcome::With(503, b"{}".to_vec()),
        || QueryOutcome::With(200, b"[]".to_vec()),
        || QueryOutcome::With(200, Vec::new()),
        || QueryOutcome::With(200, br#"{"metadata":{"indices":{"i":7}},"nodes":1,"version":"#.to_vec()),
    ];
    for kind in ["version", "version", "overview", "aliases", "details of indices"] {
        for outcome in outcomes {
            let mut harness = Harness::settled(3);
            harness.cluster().alias("i", "x", json!({}));
            harness.cluster().create("k", &["n1"]);
            harness.run_failing(INTERVAL * 3, kind, outcome);
            for worker in 0..3 {
                harness.check_one(worker, true);
                assert!(harness.route(worker, "j", "1").is_some(), "{kind}");
            }
            // There are three workers, three intervals, and one query of each kind in a cycle.
            assert!((2..=9).contains(&harness.count(kind)), "{kind}: {}", harness.count(kind));
            harness.follow_for(INTERVAL);
        }
    }
}

#[test]
fn a_failed_cycle_keeps_its_results() {
    let mut harness = Harness::settled(1);
    harness.cluster().delete("j");
    harness.cluster().create("k", &["n1"]);
    harness.run_failing(INTERVAL, "details of indices", || QueryOutcome::With(503, Vec::new()));
    assert_eq!(harness.worker(0).errors().len(), 1);
    assert_eq!(harness.route(0, "j", "1"), None);
    harness.check_one(0, true);
}

/// Otherwise requests would pass through because their indices are unknown, and an Envoy without a state would seem ready.
#[test]
fn workers_have_no_table_as_long_as_only_the_nodes_are_known() {
    let mut harness = Harness::new(3);
    harness.cluster().alias("i", "x", json!({}));
    let forbidden = || QueryOutcome::With(403, Vec::new());
    harness.run_failing(INTERVAL * 3, "aliases", forbidden);
    assert!(harness.workers.iter().all(|worker| worker.borrow().table.is_none()));
    harness.run_for(INTERVAL * 2);
    harness.check();
}

#[test]
fn a_partly_read_older_state_discards_the_old_content() {
    let mut harness = Harness::settled(1);
    harness.cluster().alias("i", "x", json!({}));
    harness.run_for(INTERVAL);
    {
        let mut cluster = harness.cluster();
        cluster.change_table("j", |index| index.shards = vec![Shard::On("n2")]);
        cluster.change_table("i", |index| index.aliases = [("y".to_owned(), json!({}))].into());
        cluster.version = 2;
    }
    harness.run_failing(INTERVAL, "aliases", || QueryOutcome::With(503, Vec::new()));
    // By the next cycle the state's number is higher than the known one, and j has its old version.
    harness.follow(|cluster| cluster.version += 10);
}

#[test]
fn a_hint_during_a_failed_cycle_does_not_start_another_at_once() {
    let mut harness = Harness::settled(1);
    harness.poll_soon(0);
    harness.stop_at(0, "version");
    harness.poll_soon(0);
    harness.worker(0).cache.answered(503, Vec::new(), harness.now);
    harness.run_for(SECOND / 2);
    assert_eq!(harness.count("version"), 1);
    harness.run_for(SECOND / 2);
    assert_eq!(harness.count("version"), 2);
}

#[test]
fn a_hint_starts_the_next_cycle_at_once_at_a_limited_rate() {
    let mut harness = Harness::settled(1);
    harness.run_for(INTERVAL / 2);
    harness.forget();
    harness.poll_soon(0);
    harness.run_for(Time::ZERO);
    assert_eq!(harness.count("version"), 1);
    for _ in 0..10 {
        harness.poll_soon(0);
        harness.run_for(INTERVAL / 100);
    }
    assert_eq!(harness.count("version"), 1);
    harness.run_for(INTERVAL / 5);
    assert_eq!(harness.count("version"), 2);
    for _ in 0..100 {
        harness.poll_soon(0);
        harness.run_for(INTERVAL / 20);
    }
    assert!((24..=28).contains(&harness.count("version")), "{} in five intervals", harness.count("version"));
}

#[test]
fn a_hint_during_a_cycle_starts_another() {
    let mut harness = Harness::new(1);
    harness.stop_at(0, "overview");
    harness.poll_soon(0);
    harness.answer(0);
    harness.run_for(INTERVAL / 5);
    assert_eq!(harness.count("version"), 2);
}

/// The elected master has adopted a state that one node lacks.
#[test]
fn an_answer_from_a_node_that_lags_is_not_used() {
    for kind in ["overview", "details of indices"] {
        let mut harness = harness();
        let lagging = |query: &StateQuery| harness.cluster().answer(&query.path()).to_string().into_bytes();
        let overview = lagging(&StateQuery::Overview);
        let details = lagging(&StateQuery::Details(vec!["i".to_owned(), "j".to_owned()]));
        harness.cluster().place("j", "n2");
        harness.run_with(Time::ZERO, |_, query| match query {
            StateQuery::Overview if kind == "overview" => QueryOutcome::With(200, overview.clone()),
            StateQuery::Details(_) => QueryOutcome::With(200, details.clone()),
            _ => QueryOutcome::Answered,
        });
        assert_eq!(harness.worker(0).errors(), []);
        assert_eq!(harness.route(0, "j", "1"), None, "{kind}");
        harness.follow_for(SECOND / 5);
        assert_eq!(harness.route(0, "j", "1").as_deref(), Some("up-es-2"), "{kind}");
    }
}

/// A node lacks the state that others have adopted. It answers for aliases from its own copy, without a version.
#[test]
fn aliases_from_a_node_that_lags_are_corrected() {
    let mut harness = harness();
    let write_to = |harness: &Harness, is_k: bool| {
        harness.cluster().alias("k", "a", json!({"is_write_index": is_k}));
        harness.cluster().alias("l", "a", json!({"is_write_index": !is_k}));
    };
    harness.cluster().create("k", &["n1"]);
    harness.cluster().create("l", &["n2"]);
    write_to(&harness, true);
    harness.run_for(INTERVAL);
    let lagging = harness.cluster().answer(&StateQuery::Aliases.path()).to_string().into_bytes();
    write_to(&harness, false);
    harness.run_with(INTERVAL, |_, query| match query {
        StateQuery::Aliases => QueryOutcome::With(200, lagging.clone()),
        _ => QueryOutcome::Answered,
    });
    assert_eq!(harness.route(0, "a", "1").as_deref(), Some("up-es-1"));
    harness.forget();
    harness.run_for(Time::from_secs(120) + INTERVAL);
    assert_eq!(harness.route(0, "a", "1").as_deref(), Some("up-es-2"));
    harness.run_for(Time::from_secs(600));
    assert_eq!((harness.count("aliases"), harness.count("overview")), (1, 1));
}

/// A node has adopted a state that the elected master lacks until it stops waiting for others.
#[test]
fn a_master_that_lags_causes_no_new_queries_for_details() {
    let mut harness = Harness::settled(1);
    let version = harness.cluster().answer(&StateQuery::Version.path()).to_string().into_bytes();
    harness.cluster().place("j", "n2");
    let lagging = |_, query: &StateQuery| match query {
        StateQuery::Version => QueryOutcome::With(200, version.clone()),
        _ => QueryOutcome::Answered,
    };
    harness.cluster().version += 1;
    harness.poll_soon(0);
    harness.follow_for(INTERVAL);
    harness.forget();
    harness.run_with(INTERVAL * 5, lagging);
    assert_eq!(harness.route(0, "j", "1").as_deref(), Some("up-es-2"));
    assert_eq!((harness.details(), harness.count("aliases")), (Vec::new(), 0));
}

/// The hosts of the coordinator belong to two clusters.
#[test]
fn details_of_another_cluster_are_not_used() {
    let mut harness = harness();
    let cluster = Rc::clone(&harness.cluster);
    harness.run_with(SECOND, |_, query| {
        let is_other = matches!(query, StateQuery::Details(_));
        cluster.borrow_mut().uuid = if is_other { "other" } else { "c" }.to_owned();
        QueryOutcome::Answered
    });
    cluster.borrow_mut().uuid = "c".to_owned();
    let errors = harness.worker(0).errors();
    let [error] = errors.as_slice() else { panic!("{errors:?}") };
    assert!(
        error.to_string().starts_with("details of indices: ") && error.problem.contains("another cluster"),
        "{error}"
    );
    assert_eq!(harness.count("version"), 6, "the cycle is repeated five times");
    harness.follow_for(INTERVAL);
}

#[test]
fn a_missing_upstream_is_retried_after_a_cycle() {
    let mut harness = Harness::settled(2);
    assert!(harness.route(0, "j", "1").is_some());
    harness.miss(0, "up-es-1");
    harness.run_for(Time::ZERO);
    harness.check_one(0, true);
    harness.check_one(1, false);
    assert_eq!(harness.route(0, "j", "1"), None);
    harness.follow_for(INTERVAL);
}

#[test]
fn the_error_of_a_refused_query_says_what_to_do() {
    for (status, advice) in
        [(401, "the password, or the API key"), (403, "the privileges in filter/README.md"), (500, "500")]
    {
        let mut harness = harness();
        harness.run_with(INTERVAL, |_, _| QueryOutcome::With(status, Vec::new()));
        let errors = harness.worker(0).errors();
        assert!(errors.iter().any(|error| error.to_string().contains(advice)), "{errors:?}");
    }
}

#[test]
fn a_state_is_stale_once_polls_have_failed_for_long() {
    // The default of `cluster_state.stale_after`.
    const LIMIT: Time = Time::from_secs(60);
    let mut harness = Harness::settled(3);
    let are_stale = |harness: &Harness| -> Vec<bool> {
        harness.workers.iter().map(|worker| worker.borrow().cache.is_stale(harness.now)).collect()
    };
    // Polls that find no change keep it fresh, in all workers.
    harness.run_for(LIMIT * 3);
    assert_eq!(are_stale(&harness), [false; 3]);
    let fail = |harness: &mut Harness, time| harness.run_with(time, |_, _| QueryOutcome::With(403, Vec::new()));
    fail(&mut harness, LIMIT - SECOND);
    assert_eq!(are_stale(&harness), [false; 3]);
    fail(&mut harness, INTERVAL * 2);
    assert_eq!(are_stale(&harness), [true; 3]);
    let ages = harness.workers.iter().map(|worker| harness.now - worker.borrow().cache.verified().unwrap().1);
    assert!(ages.into_iter().all(|age| age > LIMIT));
    harness.run_for(INTERVAL * 2);
    assert_eq!(are_stale(&harness), [false; 3]);
    harness.check();
}
