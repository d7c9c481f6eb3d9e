use crate::pauses::Pauses;
use crate::saboteur::Saboteur;

/// An engine and its timer.
#[derive(Debug)]
pub struct Machine {
    /// The engine, perhaps a broken one.
    pub engine: Saboteur,
    /// What it can know of held headers.
    pub pauses: Pauses,
    /// Counts the timers that were set.
    pub timer: u64,
    /// Milliseconds from tick to tick.
    pub period: u64,
    /// Whether it has begun to learn how the cluster stands.
    pub learns: bool,
    /// Whether it was idle after the last request.
    pub rests: bool,
    /// The most that it may take: its budget and one request.
    pub most_memory: u64,
}

impl Machine {
    /// One without a timer.
    pub fn new(engine: Saboteur, pauses: Pauses, most_memory: u64) -> Self {
        Self { engine, pauses, timer: 0, period: 0, learns: false, rests: false, most_memory }
    }
}
