use std::collections::VecDeque;

/// The last events of a run. Written only where somebody will read it: a run that fails is run once more with it.
#[derive(Debug, Default)]
pub struct Trace {
    events: Option<VecDeque<String>>,
}

/// How many events are kept.
const LENGTH: usize = 60;

impl Trace {
    /// One that is written.
    pub fn written() -> Self {
        Self { events: Some(VecDeque::new()) }
    }

    /// Adds an event.
    pub fn add(&mut self, now: u64, event: impl FnOnce() -> String) {
        if let Some(events) = &mut self.events {
            if events.len() == LENGTH {
                events.pop_front();
            }
            events.push_back(format!("{now:>7} ms  {}", event()));
        }
    }

    /// The last events, oldest first.
    pub fn lines(self) -> impl Iterator<Item = String> {
        self.events.into_iter().flatten()
    }
}
