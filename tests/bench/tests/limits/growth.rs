//! Tests that the cost of a request does not grow with the cluster, nor with waiting requests. `make
//! bench-instructions` counts instructions.

use bulk_reshuffle_bench::routines::{Case, Routine, SERIES, Serving};

/// The margin, because a share allocates a little more than a request.
const MARGIN: f64 = 1.1;

fn case(series: &str, name: &str) -> Case {
    let series = SERIES.iter().find(|found| found.name == series).expect("a series");
    *series.cases.iter().find(|found| found.name == name).expect("a case")
}

fn served(case: &Case) -> Serving {
    let mut routine = Serving::new(case);
    for _ in 0..2 {
        routine.prepare();
        routine.run();
    }
    routine.prepare();
    routine
}

/// Returns the routine of a case, and its allocations.
fn measured(case: &Case) -> (Serving, u64) {
    let mut routine = served(case);
    let count = allocation_counter::measure(|| routine.run()).count_total;
    (routine, count)
}

/// Returns the allocations for each request, each of its shares and each batch.
fn allocations(case: &Case) -> f64 {
    let (routine, count) = measured(case);
    count as f64 / (case.requests + routine.shares() + routine.batches()) as f64
}

#[test]
fn allocations_do_not_grow() {
    for series in SERIES {
        let counts = series.cases.map(|case| allocations(&case));
        let is_flat =
            (1..counts.len()).all(|case| counts[..case].iter().all(|smaller| counts[case] <= smaller * MARGIN));
        assert!(is_flat, "{}: {counts:?}", series.name);
    }
}

/// The filter takes the header that names the host off the answer.
#[test]
fn a_batch_and_its_answer_allocate_at_most_9_times_more_in_one_envoy_cluster() {
    for load in ["the same 10,000 requests of 1 document", "the same 10 requests of 1,000 documents"] {
        let [(_, own), (routine, shared)] =
            ["nodes", "nodes in one Envoy cluster"].map(|way| measured(&case(&format!("{way}; {load}"), "300")));
        let more = (shared - own) as f64 / routine.batches() as f64;
        assert!((1.0..=9.0).contains(&more), "{load}: {more}");
    }
}

/// Checks that the cases measure what they claim.
#[test]
fn waiting_requests_leave_together() {
    // To each node the first request leaves alone, and then all others together.
    for (series, name, shares, batches) in [
        ("nodes; requests of 1 document, 100 for each node", "3", 300, 6),
        ("nodes; the same 10,000 requests of 1 document", "300", 10_000, 600),
        ("nodes; the same 10 requests of 1,000 documents", "300", 2_888, 600),
        ("nodes in one Envoy cluster; the same 10,000 requests of 1 document", "300", 10_000, 600),
        ("shards; documents for all indices, round robin", "100,000", 30, 6),
        ("waiting requests of one caller", "1", 1, 1),
        ("waiting requests of one caller", "10,000", 10_000, 6),
        ("waiting requests, each of another caller", "10,000", 10_000, 10_000),
        ("requests that wait for a node that hangs; documents for other nodes", "10,000", 100, 4),
    ] {
        let routine = served(&case(series, name));
        assert_eq!((routine.shares(), routine.batches()), (shares, batches), "{series}: {name}");
    }
}
