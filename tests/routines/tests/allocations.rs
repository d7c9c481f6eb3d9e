//! What each routine asks of the allocator for one more operation of a large request. What a request asks for once, or
//! for each of its chunks, is not counted: it is no more than a hundredth of an operation's.
#![allow(clippy::expect_used, missing_docs)]

use bulk_reshuffle_routines::{Load, Make, ROUTINES};

fn allocations(make: Make, documents: usize) -> u64 {
    let mut routine = make(Load { requests: 1, documents, bytes: 290 });
    for _ in 0..3 {
        routine.prepare();
        routine.run();
    }
    routine.prepare();
    allocation_counter::measure(|| routine.run()).count_total
}

fn per_operation(name: &str) -> f64 {
    let (_, make) = ROUTINES.iter().find(|(found, _)| *found == name).expect("no such routine");
    (allocations(*make, 10_000) - allocations(*make, 1_000)) as f64 / 9_000.0
}

#[test]
fn an_operation_allocates_nothing_until_its_batch_leaves() {
    for routine in ["reading", "looking up", "splitting"] {
        let count = per_operation(routine);
        assert!(count < 0.01, "{routine}: {count}");
    }
}
