//! Tests that the number of requests in a batch matches the README's calculation.

use std::ops::RangeInclusive;
use std::time::Duration;

use bulk_reshuffle_bench::routines::Arrivals;

const ARRIVALS: Arrivals =
    Arrivals { rate: 1_000.0, workers: 1, nodes: 3, batch_time: Duration::from_millis(10), interval: None };

/// Checks that the simulated number is within this range of multiples of the calculated one.
fn holds(arrivals: Arrivals, expected: f64, times: RangeInclusive<f64>) {
    assert!((arrivals.expected() / expected - 1.0).abs() < 0.01, "{arrivals:?}: {}", arrivals.expected());
    let batches = arrivals.simulated();
    assert!(times.contains(&(batches.requests / expected)), "{arrivals:?}: {batches:?}");
}

#[test]
fn a_batch_has_the_requests_that_arrive_while_the_previous_one_is_in_flight() {
    holds(ARRIVALS, 3.37, 0.95..=1.05);
    holds(Arrivals { rate: 10_000.0, nodes: 30, ..ARRIVALS }, 3.37, 0.95..=1.05);
    // The hold waits for up to two milliseconds more, for clients that were just answered.
    holds(Arrivals { rate: 10_000.0, workers: 2, ..ARRIVALS }, 16.7, 1.0..=1.2);
    holds(Arrivals { rate: 10_000.0, nodes: 300, ..ARRIVALS }, 1.05, 0.95..=1.05);
}

#[test]
fn without_early_release_a_batch_has_the_requests_of_an_interval() {
    let interval = Some(Duration::from_millis(50));
    holds(Arrivals { interval, ..ARRIVALS }, 17.7, 0.95..=1.05);
    holds(Arrivals { interval, workers: 4, ..ARRIVALS }, 5.17, 0.95..=1.05);
}
