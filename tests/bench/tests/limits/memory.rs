//! Tests of the memory that requests and answers take, compared with what the engine counts.

use std::collections::VecDeque;

use allocation_counter::{measure, opt_out};
use bulk_reshuffle::bulk::gzip;
use bulk_reshuffle::engine::CallId;
use bulk_reshuffle_bench::routines::documents::{bodies, chunks};
use bulk_reshuffle_bench::routines::{CHUNK, Driver, Load, node_answer};

/// The memory that exists before the first request, or is kept for later ones.
const KEPT: u64 = 1 << 20;

/// Takes the batches that have left and prepares the answers to them, which do not count.
fn take_batches(site: &mut Driver, answers: &mut VecDeque<(CallId, Vec<u8>)>) {
    for call in std::mem::take(&mut site.calls) {
        opt_out(|| answers.push_back((call.id, node_answer::answer(node_answer::documents(&call.body)))));
    }
}

/// Holds all requests of a load, and then answers them. Returns the peaks of allocated and of counted bytes.
fn peaks(load: Load, is_compressed: bool) -> (u64, u64) {
    let (mut bodies, mut site, mut answers) = (bodies(load), Driver::default(), VecDeque::new());
    let mut headers: &[_] = &[];
    if is_compressed {
        bodies = bodies.iter().map(|body| gzip(body)).collect();
        headers = &[("content-encoding", "gzip")];
    }
    let allocated = measure(|| {
        for body in &bodies {
            site.request(headers, chunks(body, CHUNK)).into_iter().for_each(|input| site.in_stream(input));
            site.wake();
            take_batches(&mut site, &mut answers);
        }
        while let Some((call, answer)) = answers.front() {
            site.answer(*call, answer.clone());
            opt_out(|| drop(answers.pop_front()));
            take_batches(&mut site, &mut answers);
            site.let_clients_go();
        }
    });
    site.settle();
    (allocated.bytes_max, site.memory_peak())
}

#[test]
fn all_allocations_are_counted() {
    for (requests, documents, is_compressed) in
        [(10_000, 1, false), (10_000, 1, true), (1_000, 100, false), (1_000, 100, true), (4, 36_000, false)]
    {
        let (allocated, counted) = peaks(Load { requests, documents, bytes: 290 }, is_compressed);
        let what = format!("{requests} x {documents}, compressed: {is_compressed}");
        println!("{what}: {allocated} bytes, {counted} are counted");
        assert!(counted > (requests * documents * 290) as u64, "{what}: only {counted} bytes are counted");
        assert!(allocated <= counted + counted / 4 + KEPT, "{what}: {allocated} bytes, {counted} are counted");
    }
}
