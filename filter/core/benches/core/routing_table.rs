use bulk_reshuffle_routines::{Load, LookingUp};
use divan::Bencher;

/// With the hash of the id. Tables of many indices are measured by `make bench-state`.
#[divan::bench(args = Load::all(), sample_size = 1)]
fn look_up(bencher: Bencher<'_, '_>, load: Load) {
    super::measure(bencher, LookingUp::new(load), load.operations());
}
