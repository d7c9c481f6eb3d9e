use bulk_reshuffle_bench::routines::{Load, LookingUp};
use divan::Bencher;

/// Looks up an operation's shard, including the hash of its id. `make bench-state` measures tables of many indices.
#[divan::bench(args = Load::all(), sample_size = 1)]
fn look_up(bencher: Bencher<'_, '_>, load: Load) {
    super::measure(bencher, LookingUp::new(load), load.operations());
}
