//! Measures the routines inside Envoy's V8, and writes the results to Envoy's log: `make bench-core`.
//!
//! Each tick measures one of them, so that no callback blocks Envoy for long.

// `proxy_wasm::main!` exports the symbol that Envoy calls first.
#![allow(unsafe_code)]

use std::time::Duration;

use crate::routines::Measurement;
use proxy_wasm::traits::{Context, RootContext};
use proxy_wasm::types::LogLevel;

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Info);
    proxy_wasm::set_root_context(|_| Box::new(Root { next: 0 }));
}}

struct Root {
    next: usize,
}

impl Context for Root {}

impl RootContext for Root {
    fn on_configure(&mut self, _size: usize) -> bool {
        self.set_tick_period(Duration::from_millis(10));
        true
    }

    fn on_tick(&mut self) {
        match Measurement::take(self.next) {
            Some(measurement) => log::info!("{measurement}"),
            None => self.set_tick_period(Duration::ZERO),
        }
        self.next = self.next.saturating_add(1);
    }
}
