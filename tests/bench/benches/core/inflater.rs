use bulk_reshuffle_bench::routines::{CHUNK, Inflating, Load};
use divan::Bencher;

/// Inflates bodies. Bytes are counted after decompression.
#[divan::bench(args = Load::all(), sample_size = 1)]
fn inflate(bencher: Bencher<'_, '_>, load: Load) {
    super::measure(bencher, Inflating::new(load, CHUNK), load.operations());
}
