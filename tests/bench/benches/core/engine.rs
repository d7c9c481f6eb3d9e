use bulk_reshuffle_bench::routines::{Answering, CHUNK, Load, Splitting};
use divan::Bencher;

/// Takes requests from their headers to the finished batches.
#[divan::bench(args = Load::all(), sample_size = 1)]
fn split(bencher: Bencher<'_, '_>, load: Load) {
    super::measure(bencher, Splitting::new(load, CHUNK), load.operations());
}

/// Does the same for compressed bodies. Bytes are counted after decompression.
#[divan::bench(args = Load::all(), sample_size = 1)]
fn inflate_and_split(bencher: Bencher<'_, '_>, load: Load) {
    super::measure(bencher, Splitting::inflated(load, CHUNK), load.operations());
}

/// Takes the nodes' answers to the clients' answers. Bytes are those of the nodes' answers.
#[divan::bench(args = Load::all(), sample_size = 1)]
fn answer(bencher: Bencher<'_, '_>, load: Load) {
    super::measure(bencher, Answering::new(load, CHUNK), load.operations());
}
