use std::time::Duration;

use bulk_reshuffle::engine::{Engine, Metric};
use hashbrown::HashMap;
use proxy_wasm::hostcalls;
use proxy_wasm::types::MetricType;

use crate::peak::Peak;

/// Envoy's numbers for the metrics that were counted so far.
#[derive(Debug)]
pub struct Metrics {
    defined: HashMap<Metric, u32>,
    state_busy: Option<u32>,
    state_steps: Option<u32>,
    memory: Peak,
    vm_memory: Peak,
}

/// Time that the cluster's state has taken of this VM, and how that was spread over callbacks.
const STATE_BUSY: &str = "bulk_reshuffle_state_busy_microseconds_total";
const STATE_STEPS: &str = "bulk_reshuffle_state_step_microseconds";

impl Default for Metrics {
    fn default() -> Self {
        Self {
            defined: HashMap::new(),
            state_busy: None,
            state_steps: None,
            memory: Peak::new("bulk_reshuffle_memory_peak_bytes"),
            vm_memory: Peak::new("bulk_reshuffle_vm_memory_peak_bytes"),
        }
    }
}

impl Metrics {
    /// Adds what the engine has counted to Envoy's counters, and shows what it takes at most.
    pub fn publish(&mut self, engine: &mut Engine) {
        self.memory.show(engine.memory_peak());
        self.vm_memory.show(vm_memory());
        for (metric, by) in engine.take_metrics() {
            let number = match self.defined.get(&metric) {
                Some(number) => *number,
                None => {
                    let name = metric.name(engine.upstreams());
                    let Ok(number) = hostcalls::define_metric(MetricType::Counter, &name) else { continue };
                    self.defined.insert(metric, number);
                    number
                }
            };
            if let Ok(by) = i64::try_from(by) {
                // A counter that cannot be moved is no reason to stop serving.
                let _ = hostcalls::increment_metric(number, by);
            }
        }
    }

    /// Notes how long the cluster's state has kept a callback; no time: not at all.
    pub fn note_state_step(&mut self, time: Duration) {
        // A counter takes no zero.
        let Some(micros) = u64::try_from(time.as_micros()).ok().filter(|micros| *micros > 0) else { return };
        if let Some(number) = define(&mut self.state_busy, MetricType::Counter, STATE_BUSY) {
            let _ = hostcalls::increment_metric(number, i64::try_from(micros).unwrap_or(i64::MAX));
        }
        if let Some(number) = define(&mut self.state_steps, MetricType::Histogram, STATE_STEPS) {
            let _ = hostcalls::record_metric(number, micros);
        }
    }
}

/// A metric's number, which Envoy is asked for once.
fn define(number: &mut Option<u32>, kind: MetricType, name: &str) -> Option<u32> {
    if number.is_none() {
        *number = hostcalls::define_metric(kind, name).ok();
    }
    *number
}

/// Bytes of this VM's memory. It never shrinks.
#[cfg(target_arch = "wasm32")]
fn vm_memory() -> u64 {
    (core::arch::wasm32::memory_size::<0>() as u64).saturating_mul(crate::peak::PAGE)
}

/// There is no VM.
#[cfg(not(target_arch = "wasm32"))]
fn vm_memory() -> u64 {
    0
}
