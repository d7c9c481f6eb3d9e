//! Tests that the routines do their work: otherwise the measurements would mean nothing.

use bulk_reshuffle_bench::routines::{Load, ROUTINES};

#[test]
fn every_routine_can_be_repeated() {
    for (name, make) in ROUTINES {
        for (requests, documents) in [(1, 1), (256, 1), (1, 1_000)] {
            let mut routine = make(Load { requests, documents, bytes: 290 });
            for _ in 0..3 {
                routine.prepare();
                routine.run();
            }
            assert!(routine.bytes() >= 100 * requests * documents, "{name}");
        }
    }
}
