//! Benchmarks of look-ups by size of the table, and of the steps of a refresh.

use std::rc::Rc;
use std::time::Duration;

use bulk_reshuffle::routing::{RoutingTable, hash};
use bulk_reshuffle_bench::large_state::{LargeCluster, Shelf, Step, Worker};
use divan::{Bencher, black_box};

fn main() {
    divan::main();
    report();
}

/// The sizes of the tables. Of 100,000 indices the filter loads no more than the last of these.
const SIZES: [usize; 4] = [100, 1_000, 10_000, 20_000];

fn table(indices: usize) -> Rc<RoutingTable> {
    let mut worker = Worker::new(1, &Shelf::default());
    worker.refresh(&LargeCluster::new(indices));
    worker.table.expect("a table")
}

/// Looks up all names, in an order that caches cannot predict.
fn look_up(bencher: Bencher<'_, '_>, indices: usize, names: &[String]) {
    let table = table(indices);
    let id_hash = Some(hash("an-id-as-clients-make-them"));
    let mut at = 0;
    bencher.bench_local(|| {
        at = (at + 7_919) % names.len();
        table.route(black_box(&names[at]), id_hash, None)
    });
}

#[divan::bench(args = SIZES, sample_size = 20_000)]
fn look_up_by_index(bencher: Bencher<'_, '_>, indices: usize) {
    look_up(bencher, indices, LargeCluster::new(indices).names());
}

#[divan::bench(args = SIZES, sample_size = 20_000)]
fn look_up_by_alias(bencher: Bencher<'_, '_>, indices: usize) {
    look_up(bencher, indices, &(0..indices / 25).map(LargeCluster::alias).collect::<Vec<_>>());
}

#[divan::bench(args = SIZES, sample_size = 20_000)]
fn look_up_by_data_stream(bencher: Bencher<'_, '_>, indices: usize) {
    look_up(bencher, indices, &(0..indices / 25).map(LargeCluster::data_stream).collect::<Vec<_>>());
}

#[divan::bench(args = SIZES, sample_size = 20_000)]
fn look_up_unknown_names(bencher: Bencher<'_, '_>, indices: usize) {
    let names: Vec<_> = (0..indices).map(|number| format!("logstash-nothing-2026.11.20-{number:07}")).collect();
    look_up(bencher, indices, &names);
}

const ROUNDS: usize = 9;

/// Repeats `act`, and prints its medians.
fn measure(what: &str, mut act: impl FnMut() -> Vec<Step>) {
    let runs: Vec<Vec<Step>> = (0..ROUNDS).map(|_| act()).collect();
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e3
    };
    let total = median(runs.iter().map(|steps| steps.iter().map(|step| step.time).sum()).collect());
    let longest =
        median(runs.iter().map(|steps| steps.iter().map(|step| step.time).max().unwrap_or_default()).collect());
    let steps = &runs[ROUNDS - 1];
    let queries = steps.iter().filter(|step| step.asked.is_some()).count();
    let bytes: usize = steps.iter().map(|step| step.answer).sum();
    println!("{what:<44} {queries:>9} {:>9} {:>7} {total:>9.2} {longest:>13.2}", bytes >> 10, steps.len());
}

fn report() {
    println!(
        "\n{:<44} {:>9} {:>9} {:>7} {:>9} {:>13}",
        "medians", "queries", "read, kB", "steps", "total, ms", "longest step"
    );
    for indices in [1_000, 10_000, 100_000] {
        let mut cluster = LargeCluster::new(indices);
        measure(&format!("{indices} indices: first load"), || Worker::new(1, &Shelf::default()).refresh(&cluster));
        let shelf = Shelf::default();
        let mut worker = Worker::new(1, &shelf);
        worker.refresh(&cluster);
        measure(&format!("{indices} indices: taken over"), || Worker::new(2, &shelf).refresh(&cluster));
        measure(&format!("{indices} indices: nothing new"), || worker.refresh(&cluster));
        for changed in [0, 1, 100, 1_000] {
            measure(&format!("{indices} indices: new state, {changed} changed"), || {
                cluster.change(changed);
                worker.refresh(&cluster)
            });
        }
    }
}
