//! Records the metrics of batches, and computes the gauges of held and in-flight operations.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::engine::Engine;
use crate::engine::batching::Batch;
use crate::engine::metrics::{Counter, Gauge, Histogram, MetricEvents, micros};
use crate::engine::response::Failure;

impl Engine {
    /// Returns whether it is time to publish the [metric events](Self::take_events) and the [gauges](Self::gauges).
    pub fn is_due(&self) -> bool {
        let nothing_under_way = self.requests.is_empty() && !self.outbox.has_replies();
        self.metrics.due().is_some_and(|due| nothing_under_way || due <= self.now)
    }

    /// Moves the metric events since the last call into `into`, replacing its contents.
    pub fn take_events(&mut self, into: &mut MetricEvents) {
        self.metrics.take(into, self.now);
    }

    /// Returns the gauges. A gauge that is missing is zero.
    pub fn gauges(&self) -> BTreeMap<Gauge, u64> {
        let mut gauges = self.gauges_by_upstream();
        if self.cluster.state.is_awake() {
            let of_worker = [
                (Gauge::Memory, self.memory.used()),
                (Gauge::MemoryLimit, self.settings.current.limits.memory),
                (Gauge::MemoryPeak, self.memory.peak()),
                (Gauge::VmMemoryPeak, self.vm_memory),
            ];
            gauges.extend(of_worker);
        }
        if let Some((version, at)) = self.cluster.state.verified() {
            let verified = self.ids.since_epoch().saturating_add(at).as_secs();
            gauges.extend([(Gauge::StateVersion, version.version), (Gauge::StateVerified, verified)]);
        }
        gauges
    }

    /// Returns the gauges of the held and in-flight operations of each upstream.
    fn gauges_by_upstream(&self) -> BTreeMap<Gauge, u64> {
        let mut gauges = BTreeMap::new();
        let mut add = |gauge: Gauge, by: u64| {
            let value: &mut u64 = gauges.entry(gauge).or_default();
            *value = value.saturating_add(by);
        };
        for (upstream, waiting) in self.holds.waiting() {
            add(Gauge::HeldRequests(upstream), waiting.requests);
            add(Gauge::HeldOperations(upstream), waiting.operations);
            add(Gauge::HeldBytes(upstream), waiting.bytes);
        }
        for batch in self.calls.batches() {
            add(Gauge::InFlightBatches(batch.upstream), 1);
            add(Gauge::InFlightOperations(batch.upstream), batch.operations());
            add(Gauge::InFlightBytes(batch.upstream), batch.bytes());
        }
        gauges
    }

    /// Records how long a callback has worked on the cluster state. The shell measures it.
    pub fn record_state_step(&mut self, time: Duration) {
        let micros = micros(time);
        self.metrics.count(Counter::StateBusyMicroseconds, micros);
        self.metrics.sample(Histogram::StateStepMicroseconds, micros);
    }

    /// Records the memory size of the VM in bytes. The shell measures it.
    pub fn record_vm_memory(&mut self, bytes: u64) {
        self.vm_memory = bytes;
    }

    /// Records the metrics of a batch that leaves.
    pub(crate) fn record_sent(&mut self, batch: &Batch, bytes: usize) {
        let (upstream, operations, requests) = (batch.upstream, batch.operations(), batch.shares.len());
        self.count(Counter::Batches(upstream), 1);
        self.count(Counter::BatchOperations(upstream), operations as usize);
        self.count(Counter::BatchRequests(upstream), requests);
        self.count(Counter::BatchBytes(upstream), bytes);
        self.metrics.sample(Histogram::BatchOperations, operations);
        self.metrics.sample(Histogram::BatchRequests, requests as u64);
        self.metrics.sample(Histogram::BatchBytes, bytes as u64);
        // The time since the first attempt is not time on hold.
        if let Some(first) = batch.shares.first().filter(|_| batch.is_first_attempt()) {
            let held = micros(batch.sent.saturating_sub(first.since));
            self.metrics.count(Counter::HoldMicroseconds(upstream), held);
            self.metrics.sample(Histogram::HoldMicroseconds, held);
        }
    }

    /// Records the metrics of a call that has ended, with or without an answer.
    pub(crate) fn record_returned(&mut self, batch: &Batch, failure: Option<Failure>) {
        self.healths.note(batch.upstream, failure, self.now);
        let time = micros(self.now.saturating_sub(batch.sent));
        self.metrics.count(Counter::UpstreamMicroseconds(batch.upstream), time);
        self.metrics.sample(Histogram::UpstreamMicroseconds, time);
    }
}
