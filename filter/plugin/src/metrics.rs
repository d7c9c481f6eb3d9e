use bulk_reshuffle::engine::{Engine, Metric};
use hashbrown::HashMap;
use proxy_wasm::hostcalls;
use proxy_wasm::types::MetricType;

/// Envoy's numbers for the metrics that were counted so far.
#[derive(Debug, Default)]
pub struct Metrics {
    defined: HashMap<Metric, u32>,
}

impl Metrics {
    /// Adds what the engine has counted to Envoy's counters.
    pub fn publish(&mut self, engine: &mut Engine) {
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
}
