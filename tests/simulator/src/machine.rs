use crate::fault_injector::FaultInjector;
use crate::pauses::Pauses;

/// An engine and its timer.
#[derive(Debug)]
pub struct Machine {
    /// The engine, possibly with an injected fault.
    pub engine: FaultInjector,
    /// The engine's possible knowledge of held headers.
    pub pauses: Pauses,
    /// The number of timers that were set.
    pub timer: u64,
    /// The period of the ticks, in milliseconds.
    pub period: u64,
    /// Whether it has begun to learn the cluster's layout.
    pub learns: bool,
    /// Whether it was idle after the last request.
    pub rests: bool,
    /// The maximum memory that it may take, in bytes: its budget and one request.
    pub most_memory: u64,
}

impl Machine {
    /// Creates a machine without a timer.
    pub fn new(engine: FaultInjector, pauses: Pauses, most_memory: u64) -> Self {
        Self { engine, pauses, timer: 0, period: 0, learns: false, rests: false, most_memory }
    }
}
