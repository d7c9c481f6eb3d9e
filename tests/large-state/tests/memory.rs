//! Tests of the memory of a table of 10,000 indices and 100,000 shards.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use allocation_counter::measure;
use bulk_reshuffle_large_state::{LargeCluster, Shelf, Worker};

/// The limit is for 64 bits. In the VM pointers take half of this.
#[test]
fn a_table_takes_at_most_64_bytes_per_shard_without_names() {
    let cluster = LargeCluster::new(10_000);
    let shelf = Shelf::default();
    // The second worker applies what the first has found, so that only the table is counted.
    Worker::new(1, &shelf).refresh(&cluster);
    let mut worker = None;
    let info = measure(|| drop(worker.insert(Worker::new(2, &shelf)).refresh(&cluster)));
    let all = usize::try_from(info.bytes_current).unwrap();
    assert!(worker.unwrap().table.is_some());
    let targets = (0..400).map(LargeCluster::alias).chain((0..400).map(LargeCluster::data_stream));
    let names: usize = cluster.names().iter().map(String::len).chain(targets.map(|name| name.len())).sum();
    let for_each = (all - names) / cluster.shards();
    println!("{all} bytes, {names} of them names: {for_each} bytes for each shard; published: {}", shelf.bytes());
    assert!((2..=64).contains(&for_each), "{for_each}");
}
