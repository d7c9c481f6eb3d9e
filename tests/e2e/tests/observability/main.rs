//! Tests the dashboard and the alerts of `examples/observability` with a real Prometheus that scrapes real Envoys. One
//! Envoy is in front of a real cluster, two are in front of nodes with every kind of failure, and one has no filter.

mod alerts;
mod bare;
mod dashboard;
mod expression;
mod live;
mod prometheus;
mod trouble;

use std::path::{Path, PathBuf};

/// Returns the path of a file of `examples/observability`.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/observability").join(name)
}
