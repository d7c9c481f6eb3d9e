//! What a table of 10,000 indices and 100,000 shards takes.
#![allow(clippy::unwrap_used, clippy::expect_used, unsafe_code, missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use bulk_reshuffle_large_state::{LargeCluster, Shelf, Worker};

struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all of it is the system's allocator; the counter is on the side.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        USED.fetch_add(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Alone in its file, so that nobody else allocates meanwhile. On 64 bits: in the VM pointers take half of this.
#[test]
fn a_table_takes_at_most_64_bytes_for_each_shard_besides_names() {
    let cluster = LargeCluster::new(10_000);
    let shelf = Shelf::default();
    // What one worker has found another takes over, so that nothing is counted but the table.
    Worker::new(1, &shelf).refresh(&cluster);
    let before = USED.load(Ordering::Relaxed);
    let mut worker = Worker::new(2, &shelf);
    worker.refresh(&cluster);
    let all = USED.load(Ordering::Relaxed) - before;
    assert!(worker.table.is_some());
    let targets = (0..400).map(LargeCluster::alias).chain((0..400).map(LargeCluster::data_stream));
    let names: usize = cluster.names().iter().map(String::len).chain(targets.map(|name| name.len())).sum();
    let for_each = (all - names) / cluster.shards();
    println!("{all} bytes, {names} of them names: {for_each} bytes for each shard; published: {}", shelf.bytes());
    assert!((2..=64).contains(&for_each), "{for_each}");
}
