use std::collections::BTreeMap;

use super::departure::{Departure, Turn};

/// What concerns one upstream, whatever the shard and whoever the caller.
#[derive(Debug, Default)]
pub struct Lane {
    /// Batches on their way.
    pub in_flight: usize,
    /// What would leave if fewer batches were on their way.
    pub blocked: BTreeMap<Turn, Departure>,
}

impl Lane {
    /// Lets what has waited longest go before what became ready meanwhile.
    pub fn unblock(&mut self, ready: &mut BTreeMap<Turn, Departure>) {
        if let Some((turn, departure)) = self.blocked.pop_first() {
            ready.insert(turn, departure);
        }
    }
}
