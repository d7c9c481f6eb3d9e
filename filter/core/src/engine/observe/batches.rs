//! The metrics of batches, held and in flight.

use std::collections::BTreeMap;

use crate::Time;
use crate::engine::batching::{Batch, Holds};
use crate::engine::calls::Calls;
use crate::engine::metrics::{Counter, Gauge, Histogram, Metrics, micros};

/// Returns the gauges of the held and in-flight operations of each upstream.
pub fn gauges(holds: &Holds, calls: &Calls) -> BTreeMap<Gauge, u64> {
    let mut gauges = BTreeMap::new();
    let mut add = |gauge: Gauge, by: u64| {
        let value: &mut u64 = gauges.entry(gauge).or_default();
        *value = value.saturating_add(by);
    };
    for (upstream, waiting) in holds.waiting() {
        add(Gauge::HeldRequests(upstream), waiting.requests);
        add(Gauge::HeldOperations(upstream), waiting.operations);
        add(Gauge::HeldBytes(upstream), waiting.bytes);
    }
    for batch in calls.batches() {
        add(Gauge::InFlightBatches(batch.upstream), 1);
        add(Gauge::InFlightOperations(batch.upstream), batch.operations());
        add(Gauge::InFlightBytes(batch.upstream), batch.bytes());
    }
    gauges
}

/// Records the metrics of a batch that leaves.
pub fn sent(metrics: &mut Metrics, batch: &Batch, bytes: usize) {
    let (upstream, operations, requests) = (batch.upstream, batch.operations(), batch.shares.len() as u64);
    metrics.count(Counter::Batches(upstream), 1);
    metrics.count(Counter::BatchOperations(upstream), operations);
    metrics.count(Counter::BatchRequests(upstream), requests);
    metrics.count(Counter::BatchBytes(upstream), bytes as u64);
    metrics.sample(Histogram::BatchOperations, operations);
    metrics.sample(Histogram::BatchRequests, requests);
    metrics.sample(Histogram::BatchBytes, bytes as u64);
    // The time since the first attempt is not time on hold.
    if let Some(first) = batch.shares.first().filter(|_| batch.is_first_attempt()) {
        let held = micros(batch.sent.saturating_sub(first.since));
        metrics.count(Counter::HoldMicroseconds(upstream), held);
        metrics.sample(Histogram::HoldMicroseconds, held);
    }
}

/// Records the metrics of a batch whose call has ended, with or without an answer.
pub fn returned(metrics: &mut Metrics, batch: &Batch, now: Time) {
    let time = micros(now.saturating_sub(batch.sent));
    metrics.count(Counter::UpstreamMicroseconds(batch.upstream), time);
    metrics.sample(Histogram::UpstreamMicroseconds, time);
}
