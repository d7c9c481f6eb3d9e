use bulk_reshuffle_bench::routines::{Load, Reading};
use divan::Bencher;

#[divan::bench(args = Load::all(), sample_size = 1)]
fn in_chunks_of_16_kib(bencher: Bencher<'_, '_>, load: Load) {
    super::measure(bencher, Reading::new(load, 16 << 10), load.operations());
}

#[divan::bench(args = Load::all(), sample_size = 1)]
fn in_chunks_of_64_kib(bencher: Bencher<'_, '_>, load: Load) {
    super::measure(bencher, Reading::new(load, 64 << 10), load.operations());
}
