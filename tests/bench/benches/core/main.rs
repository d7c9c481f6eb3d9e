//! The time that each part of core takes for a request, and the whole path: `make bench-core`.

mod answer;
mod engine;
mod inflater;
mod reader;
mod routing_table;

use std::cell::RefCell;

use bulk_reshuffle_bench::routines::Routine;
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};

fn main() {
    divan::main();
}

/// Measures a routine that performs `operations` operations in each run.
fn measure(bencher: Bencher<'_, '_>, mut routine: impl Routine, operations: usize) {
    routine.prepare();
    routine.run();
    let bytes = routine.bytes();
    let routine = RefCell::new(routine);
    bencher
        .counter(BytesCount::new(bytes))
        .counter(ItemsCount::new(operations))
        .with_inputs(|| routine.borrow_mut().prepare())
        .bench_local_values(|()| routine.borrow_mut().run());
}
