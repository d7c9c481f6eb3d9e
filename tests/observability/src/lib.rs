//! Tests the dashboard and the alerts of `examples/observability` with a real Prometheus that scrapes real Envoys. One
//! Envoy is in front of a real cluster, and two are in front of nodes with every kind of failure.

mod dashboard;
mod expression;
mod healthy_scene;
mod prometheus;
mod rules;
mod trouble;

pub use dashboard::{Dashboard, Panel, Target};
pub use expression::Selector;
pub use healthy_scene::HealthyScene;
pub use prometheus::{Job, Prometheus};
pub use rules::{Rule, Rules};
pub use trouble::Trouble;

use std::path::{Path, PathBuf};

/// Returns the path of a file of `examples/observability`.
pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/observability").join(name)
}
