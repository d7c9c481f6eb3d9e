//! Drives the real engine of `bulk-reshuffle` through random days under virtual time, in front of a model cluster,
//! and checks every promise after every step. The same seed gives the same day.
//!
//! ```text
//!   Client ──▶ Saboteur(Engine) ──▶ Calls ──▶ Cluster        moved by the World's Agenda
//!      ▲            │ commands        │ fates     │ items
//!      └────────────┴──────▶ Ledger ◀─┴───────────┘          checks what is sent, carried out and replied
//! ```
//!
//! Who wants to know whether the checks check anything: [`Sabotage`] breaks each promise once.

mod agenda;
mod callbacks;
mod calls;
mod client;
mod cluster;
mod coverage;
mod dice;
mod disturbance;
mod fate;
mod freshness;
mod lanes;
mod layout;
mod ledger;
mod machine;
mod memory;
mod operation;
mod pauses;
mod replying;
mod resend;
mod run;
mod sabotage;
mod saboteur;
mod scenario;
mod sending;
mod trace;
mod violation;
mod world;

pub use coverage::Coverage;
pub use run::{Failure, run};
pub use sabotage::Sabotage;
pub use violation::{Promise, Violation};
