use bulk_reshuffle_routines::{Answering, CHUNK, Load, Splitting};
use divan::Bencher;

/// From the requests' headers to the batches.
#[divan::bench(args = Load::all(), sample_size = 1)]
fn split(bencher: Bencher<'_, '_>, load: Load) {
    super::measure(bencher, Splitting::new(load, CHUNK), load.operations());
}

/// The same of bodies that arrive compressed; per byte of what comes out.
#[divan::bench(args = Load::all(), sample_size = 1)]
fn inflate_and_split(bencher: Bencher<'_, '_>, load: Load) {
    super::measure(bencher, Splitting::inflated(load, CHUNK), load.operations());
}

/// From the nodes' answers to the clients'; per byte of the former.
#[divan::bench(args = Load::all(), sample_size = 1)]
fn answer(bencher: Bencher<'_, '_>, load: Load) {
    super::measure(bencher, Answering::new(load, CHUNK), load.operations());
}
