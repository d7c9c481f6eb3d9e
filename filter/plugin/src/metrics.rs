use std::hash::Hash;

use bulk_reshuffle::engine::metrics::{Counter, Gauge, Histogram, Kind, MetricEvents, Workers};
use bulk_reshuffle::engine::{Engine, Input, RequestId};
use bulk_reshuffle::routing::Upstreams;
use hashbrown::HashMap;
use proxy_wasm::hostcalls;
use proxy_wasm::types::MetricType;

/// Envoy's ids of the metrics that were used so far, and the last values of this worker's gauges.
#[derive(Debug, Default)]
pub struct Metrics {
    counters: Numbers<Counter>,
    gauges: Numbers<Gauge>,
    histograms: Numbers<Histogram>,
    shown: HashMap<Gauge, u64>,
    /// What was taken of the engine last.
    events: MetricEvents,
}

impl Metrics {
    /// Shows what has happened and how things are, if it is time.
    pub fn publish(&mut self, engine: &mut Engine) {
        if !engine.is_due() {
            return;
        }
        engine.record_vm_memory(vm_memory());
        let mut events = std::mem::take(&mut self.events);
        engine.take_events(&mut events);
        let upstreams = engine.upstreams();
        for (counter, by) in &events.counts {
            let number = self.counters.of(*counter, MetricType::Counter, || counter.name(upstreams));
            // A counter cannot be incremented by zero. A counter that cannot be incremented must not stop the filter.
            if let (Some(number), Ok(by @ 1..)) = (number, i64::try_from(*by)) {
                let _ = hostcalls::increment_metric(number, by);
            }
        }
        for (histogram, value) in &events.samples {
            let number = self.histograms.of(*histogram, MetricType::Histogram, || histogram.name(upstreams));
            if let Some(number) = number {
                let _ = hostcalls::record_metric(number, *value);
            }
        }
        self.events = events;
        let now = engine.gauges();
        let over = self.shown.iter().filter(|(gauge, value)| **value > 0 && !now.contains_key(*gauge));
        let over: Vec<(Gauge, u64)> = over.map(|(gauge, _)| (*gauge, 0)).collect();
        for (gauge, value) in now.into_iter().chain(over) {
            self.show(gauge, value, upstreams);
        }
    }

    /// Returns Envoy's values of these counters and gauges, over all workers.
    pub fn measure(&mut self, engine: &Engine, request: RequestId, counters: &[Counter], gauges: &[Gauge]) -> Input {
        let upstreams = engine.upstreams();
        let value = |number: Option<u32>| number.and_then(|number| hostcalls::get_metric(number).ok());
        let counters = counters.iter().map(|counter| {
            let number = self.counters.of(*counter, MetricType::Counter, || counter.name(upstreams));
            (*counter, value(number).unwrap_or_default())
        });
        let counters = counters.collect();
        let gauges = gauges.iter().map(|gauge| {
            let number = self.gauges.of(*gauge, MetricType::Gauge, || gauge.name(upstreams));
            (*gauge, value(number).unwrap_or_default())
        });
        Input::Measured { request, counters, gauges: gauges.collect() }
    }

    /// Resets this worker's share of the gauges that add up over all workers.
    pub fn withdraw(&mut self, upstreams: &Upstreams) {
        let shown: Vec<Gauge> = self.shown.keys().copied().collect();
        for gauge in shown.into_iter().filter(|gauge| gauge.family().kind == Kind::Gauge(Workers::Sum)) {
            self.show(gauge, 0, upstreams);
        }
    }

    fn show(&mut self, gauge: Gauge, value: u64, upstreams: &Upstreams) {
        let shown = self.shown.insert(gauge, value).unwrap_or_default();
        if shown == value {
            return;
        }
        let Some(number) = self.gauges.of(gauge, MetricType::Gauge, || gauge.name(upstreams)) else { return };
        let _ = match gauge.family().kind {
            // All workers share a gauge, and each adds its own change.
            Kind::Gauge(Workers::Sum) => hostcalls::increment_metric(number, difference(shown, value)),
            // If two workers do this at the same moment, the lower value may stay until the next change.
            Kind::Gauge(Workers::Largest) if hostcalls::get_metric(number).is_ok_and(|largest| largest >= value) => {
                Ok(())
            }
            _ => hostcalls::record_metric(number, value),
        };
    }
}

/// Envoy's ids of metrics: each metric is defined once.
#[derive(Debug)]
struct Numbers<M>(HashMap<M, u32>);

impl<M> Default for Numbers<M> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<M: Copy + Eq + Hash> Numbers<M> {
    fn of(&mut self, metric: M, kind: MetricType, name: impl FnOnce() -> String) -> Option<u32> {
        if let Some(number) = self.0.get(&metric) {
            return Some(*number);
        }
        let number = hostcalls::define_metric(kind, &name()).ok()?;
        self.0.insert(metric, number);
        Some(number)
    }
}

fn difference(from: u64, to: u64) -> i64 {
    let by = i64::try_from(from.abs_diff(to)).unwrap_or(i64::MAX);
    if from < to { by } else { by.saturating_neg() }
}

/// Returns the size of this VM's memory in bytes. It never shrinks.
#[cfg(target_arch = "wasm32")]
fn vm_memory() -> u64 {
    const PAGE: u64 = 64 << 10;
    (core::arch::wasm32::memory_size::<0>() as u64).saturating_mul(PAGE)
}

/// Returns 0, because there is no VM.
#[cfg(not(target_arch = "wasm32"))]
fn vm_memory() -> u64 {
    0
}
