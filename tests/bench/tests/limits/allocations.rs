//! Limits on the allocations of each routine.

use bulk_reshuffle_bench::routines::{Load, ROUTINES};

/// The maximum allocations of a routine.
struct Limit {
    routine: &'static str,
    /// The limit for one more operation of a large request. The allocations for a request or for one of its chunks are
    /// less than a hundredth of that.
    operation: f64,
    /// The limit for a lone request of one operation.
    alone: f64,
    /// The limit for each of 256 such requests that are merged.
    merged: f64,
}

/// Lower these limits with each change that saves allocations. From the request's chunks to its batches an operation
/// makes none.
const LIMITS: &[Limit] = &[
    Limit { routine: "reading", operation: 0.0, alone: 2.0, merged: 2.0 },
    // Every 32 KiB of output needs a buffer to inflate into and a piece of the exact size.
    Limit { routine: "inflating", operation: 0.02, alone: 4.0, merged: 4.0 },
    Limit { routine: "looking up", operation: 0.0, alone: 0.0, merged: 0.0 },
    Limit { routine: "splitting", operation: 0.0, alone: 11.0, merged: 6.2 },
    Limit { routine: "splitting gzip", operation: 0.02, alone: 17.0, merged: 12.2 },
    Limit { routine: "cutting", operation: 0.0, alone: 1.0, merged: 0.03 },
    Limit { routine: "answering", operation: 0.0, alone: 11.0, merged: 6.25 },
];

const ROUNDING: f64 = 0.01;

fn allocations(routine: &str, requests: usize, documents: usize) -> f64 {
    let (_, make) = ROUTINES.iter().find(|(name, _)| *name == routine).expect("a routine of this name");
    let mut routine = make(Load { requests, documents, bytes: 290 });
    // The warm-up fills all caches that are kept between requests, such as headers.
    for _ in 0..10 {
        routine.prepare();
        routine.run();
    }
    routine.prepare();
    allocation_counter::measure(|| routine.run()).count_total as f64
}

#[test]
fn no_routine_allocates_more_than_its_limit() {
    assert!(LIMITS.iter().map(|limit| limit.routine).eq(ROUTINES.iter().map(|(name, _)| *name)));
    for Limit { routine, operation, alone, merged } in LIMITS {
        let counts = [
            (allocations(routine, 1, 10_000) - allocations(routine, 1, 1_000)) / 9_000.0,
            allocations(routine, 1, 1),
            allocations(routine, 256, 1) / 256.0,
        ];
        let is_kept = counts.iter().zip([operation, alone, merged]).all(|(count, limit)| *count <= limit + ROUNDING);
        assert!(is_kept, "{routine}: {counts:?}");
    }
}
