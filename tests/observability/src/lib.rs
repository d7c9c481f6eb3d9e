//! The dashboard and the alerts of `examples/observability` before a real Prometheus, which scrapes real Envoys: one in
//! front of a real cluster, and two in front of nodes that give all the trouble there can be.

mod dashboard;
mod expression;
mod load;
mod prometheus;
mod rules;
mod site;
mod trouble;

pub use dashboard::{Dashboard, Panel, Target};
pub use expression::Selector;
pub use prometheus::{Job, Prometheus};
pub use rules::{Rule, Rules};
pub use site::Site;
pub use trouble::Trouble;

use std::path::{Path, PathBuf};

/// A file of `examples/observability`.
pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/observability").join(name)
}
