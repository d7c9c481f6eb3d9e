//! Reports the engine's steps to operators. It changes nothing but metrics and the access log.
//!
//! Each field of the access log costs a call to Envoy, so the fields are set only if `access_log` is on.

use std::collections::BTreeMap;

use super::batching::{Batch, Holds};
use super::calls::Calls;
use super::command::RequestId;
use super::metrics::{Counter, Gauge, Histogram, Metrics, micros};
use super::outbox::Outbox;
use super::pass_through::PassThrough;
use super::requests::Request;
use crate::Time;
use crate::config::Config;

/// Returns the gauges of the held and in-flight operations of each upstream, and of its slots.
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
    for (upstream, slots) in holds.slots() {
        add(Gauge::Slots(upstream), slots as u64);
    }
    for batch in calls.batches() {
        add(Gauge::InFlightBatches(batch.upstream), 1);
        add(Gauge::InFlightOperations(batch.upstream), batch.operations());
        add(Gauge::InFlightBytes(batch.upstream), batch.bytes());
    }
    gauges
}

/// Records the metrics of a batch that leaves.
pub fn count_sent(metrics: &mut Metrics, batch: &Batch, bytes: usize) {
    if batch.is_original {
        // It may be offered several times until it is sent.
        return metrics.count(Counter::DocumentsRefused, u64::from(batch.not_sent == 0));
    }
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
pub fn count_returned(metrics: &mut Metrics, batch: &Batch, now: Time) {
    if batch.is_original {
        return;
    }
    let time = micros(now.saturating_sub(batch.sent));
    metrics.count(Counter::UpstreamMicroseconds(batch.upstream), time);
    metrics.sample(Histogram::UpstreamMicroseconds, time);
}

/// Logs that a request passes through, and why.
pub fn log_passed_through(outbox: &mut Outbox, config: &Config, request: RequestId, why: PassThrough) {
    if config.access_log {
        outbox.log(request, "outcome", "passed_through".to_owned());
        outbox.log(request, "reason", why.name().to_owned());
    }
}

/// Logs a merged request: the number of operations and of destinations, and the longest time that a share was held.
pub fn log_merged(outbox: &mut Outbox, config: &Config, id: RequestId, request: &Request) {
    if config.access_log {
        outbox.log(id, "outcome", "merged".to_owned());
        outbox.log(id, "operations", request.operations.len().to_string());
        outbox.log(id, "shares", request.shares.len().to_string());
        outbox.log(id, "held_microseconds", request.progress.held.as_micros().to_string());
    }
}
