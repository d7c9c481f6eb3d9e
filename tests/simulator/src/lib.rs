//! Drives the real engine of `bulk-reshuffle` through random runs in virtual time, with a model cluster, and checks
//! every promise after every step. The same seed gives the same run.
//!
//! ```text
//!   Client ──▶ FaultInjector(Engine) ──▶ Calls ──▶ Cluster   driven by the Harness's EventQueue
//!      ▲                │ commands           │ outcomes     │ items
//!      └────────────────┴────────▶ Ledger ◀──┴───────────┘      checks what is sent, executed and replied
//! ```
//!
//! To verify the checks themselves, each [`Fault`] breaks a promise.

mod call_outcome;
mod callbacks;
mod calls;
mod client;
mod cluster;
mod coverage;
mod disturbance;
mod engine_traffic;
mod event_queue;
mod fault;
mod fault_injector;
mod freshness;
mod harness;
mod layout;
mod ledger;
mod memory;
mod operation;
mod pauses;
mod replying;
mod rng;
mod run;
mod scenario;
mod sending;
mod single_document;
mod trace;
mod violation;

pub use coverage::Coverage;
pub use fault::Fault;
pub use run::{Failure, run};
pub use violation::{Promise, Violation};
