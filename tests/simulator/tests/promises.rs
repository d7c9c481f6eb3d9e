//! Tests that the engine keeps every promise, and that the checks detect every fault, for the right reason.

use bulk_reshuffle_simulator::{Coverage, Fault, run};

#[test]
fn hundreds_of_runs_keep_every_promise() {
    let mut coverage = Coverage::default();
    for seed in 0..300 {
        match run(seed, None) {
            Ok(seen) => coverage.merge(&seen),
            Err(failure) => panic!("{}\nseed {seed}: {}", failure.trace.join("\n"), failure.violation),
        }
    }
    for what in [
        "operation: given an id",
        "operation: given a routing value",
        "operation: under a pipeline",
        "operation: under an unproven pipeline",
        "outcome: merged",
        "outcome: abandoned",
        "batch: of several requests",
        "batch: with a slow shard",
        "batch: sent again",
        "call: failed",
        "call: notsent",
        "call: notsenttext",
        "call: timedout",
        "call: refused 400",
        "call: refused 429",
        "call: lie document",
        "cluster: alias flipped",
        "cluster: node left",
        "engine: a wake-up was lost",
        "engine: replaced by a new one",
        "engine: switched",
        "engine: switched off",
        "engine: told that nodes have gone",
        "client: gzip",
        "headers: went on at once",
        "headers: were let go",
        "batch: beyond the slots of its node",
        "batch: of several filter paths",
        "batch: with conditional operations",
        "batch: of zipped and plain requests",
        "batch: of documents and bulk requests",
        "document: merged",
        "document: refused, sent itself",
        "document: answered by the original 200",
        "document: answered by the original 201",
        "document: answered by the original 409",
        "passed through: action_line",
        "passed through: document_body",
        "passed through: gzip",
        "passed through: header_pause",
        "passed through: memory",
        "passed through: no_state",
        "passed through: path",
        "passed through: primary",
        "passed through: same_id",
        "passed through: switched_off",
        "passed through: too_large",
        "passed through: unproven_pipeline",
        "reply: with success and failure",
        "engine: stopped for good",
        "state: known everywhere in the end",
        "state: taken over",
    ] {
        assert!(coverage.of(what) > 0, "never seen: {what}");
    }
}

#[test]
fn a_seed_always_gives_the_same_run() {
    let seen = || run(7, None).unwrap().iter().map(|(what, times)| (what.to_owned(), times)).collect::<Vec<_>>();
    assert_eq!(seen(), seen());
}

/// The maximum number of runs until a fault is detected.
const FAULT_SEEDS: u64 = 5_000;

#[test]
fn every_fault_is_detected() {
    let missed: Vec<String> = Fault::ALL.iter().filter_map(|fault| missed(*fault)).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

/// Returns how a fault was missed, if it was.
fn missed(fault: Fault) -> Option<String> {
    let mut found = (0..FAULT_SEEDS).filter_map(|seed| run(seed, Some(fault)).err()).peekable();
    let first = found.peek().map(|failure| failure.violation.to_string());
    let is_found = found.any(|failure| failure.violation.promise == fault.breaks());
    (!is_found).then(|| format!("{fault:?} was not detected in {FAULT_SEEDS} seeds; first violation: {first:?}"))
}
