use std::collections::VecDeque;

/// The last events of a run. They are recorded only when a failed run is repeated.
#[derive(Debug, Default)]
pub struct Trace {
    events: Option<VecDeque<String>>,
}

const LENGTH: usize = 60;

impl Trace {
    /// Creates a trace that records.
    pub fn written() -> Self {
        Self { events: Some(VecDeque::new()) }
    }

    pub fn add(&mut self, now: u64, event: impl FnOnce() -> String) {
        if let Some(events) = &mut self.events {
            if events.len() == LENGTH {
                events.pop_front();
            }
            events.push_back(format!("{now:>7} ms  {}", event()));
        }
    }

    /// Returns the last events, oldest first.
    pub fn lines(self) -> impl Iterator<Item = String> {
        self.events.into_iter().flatten()
    }
}
