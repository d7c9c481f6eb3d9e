//! Changing what the engine is configured with while it runs.

use std::rc::Rc;

use super::Engine;
use super::metrics::Counter;
use crate::config::{Config, Switches};

impl Engine {
    /// Follows these switches from now on, on top of the configuration that it was made with. What is wrong with them
    /// is said and counted when it is new.
    pub fn switch(&mut self, switches: Switches, mut invalid: Vec<String>) {
        invalid.extend(switches.contradictions(&self.configured));
        let is_new = |problem: &&String| !self.invalid_switches.contains(problem);
        let new: Vec<String> = invalid.iter().filter(is_new).cloned().collect();
        if !new.is_empty() {
            self.count(Counter::SwitchesInvalid, new.len());
        }
        new.into_iter().for_each(|problem| self.warn(problem));
        self.invalid_switches = invalid;
        if switches != self.switches {
            self.reconfigure(Rc::new(self.configured.with(&switches)));
            self.switches = switches;
        }
    }

    /// Follows this configuration from now on, where it says what becomes of requests: `enabled`, `hold`, `dispatch`,
    /// `retry`, `missing_id`, `indices`, `harmless_headers` and `limits`. Requests that are being read keep the one
    /// with which they came; what is held leaves by the new rules.
    pub fn reconfigure(&mut self, config: Rc<Config>) {
        self.holds.configure(config.hold.clone(), config.dispatch.clone(), self.now);
        self.config = config;
    }
}
