use bulk_reshuffle_bench::routines::{Cutting, Load};
use divan::Bencher;

/// Splits a node's answer into items.
#[divan::bench(args = Load::all(), sample_size = 1)]
fn cut(bencher: Bencher<'_, '_>, load: Load) {
    super::measure(bencher, Cutting::new(load), load.operations());
}
