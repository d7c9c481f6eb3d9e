use proxy_wasm::hostcalls;
use proxy_wasm::types::MetricType;

/// Bytes by which a VM's memory grows.
pub const PAGE: u64 = 64 << 10;

/// A gauge of the most bytes that any one worker has taken.
///
/// All VMs of one `vm_id` share a gauge. It takes the largest of them, since what each worker needs is what is asked;
/// of a VM that has gone it tells still.
#[derive(Debug)]
pub struct Peak {
    name: &'static str,
    gauge: Option<u32>,
    /// What this VM has taken when it was shown last.
    shown: Option<u64>,
}

impl Peak {
    /// The gauge of this name.
    pub fn new(name: &'static str) -> Self {
        Self { name, gauge: None, shown: None }
    }

    /// Shows the bytes that this VM has taken at most, if they are a page more than before: no request should pay for
    /// it, and Envoy is called once for each page at most.
    pub fn show(&mut self, bytes: u64) {
        if self.shown.is_some_and(|shown| bytes < shown.saturating_add(PAGE)) {
            return;
        }
        self.shown = Some(bytes);
        if self.gauge.is_none() {
            self.gauge = hostcalls::define_metric(MetricType::Gauge, self.name).ok();
        }
        let Some(gauge) = self.gauge else { return };
        if hostcalls::get_metric(gauge).is_ok_and(|largest| largest < bytes) {
            // Two workers that do this at the same moment may leave the lower; the next page puts it right.
            let _ = hostcalls::record_metric(gauge, bytes);
        }
    }
}
