//! Simulates the effect of holding on many requests: the filter's real engine in virtual time, in front of nodes that
//! are only queues. The same requests are then sent to the same nodes directly.
//!
//! A node executes one batch after the other. Each batch takes a fixed time plus a time for each operation, and the
//! network takes no time. So the figures show how batches form and what queues do, not the speed of a cluster.

mod arrivals;
mod directly;
mod event_queue;
mod filtered;
mod node;
mod report;
mod settings;

pub use report::{Batches, Latency, NodeReport, Report, Run};
pub use settings::Settings;

use crate::cluster::{Cluster, Unusable};
use arrivals::Arrivals;

/// Simulates requests that consist of a body's operations, and reports the results. The same seed gives the same run.
pub fn simulate(cluster: &Cluster, path: &str, body: &[u8], settings: &Settings) -> Result<Report, Unusable> {
    let settings = settings.bounded();
    let spread = if settings.nodes > 0 { Some(cluster.spread(settings.nodes)?) } else { None };
    let cluster = spread.as_ref().unwrap_or(cluster);
    let arrivals = Arrivals::new(cluster, path, body, &settings)?;
    Ok(Report {
        with: filtered::run(cluster, &arrivals, &settings)?,
        without: directly::run(&arrivals, &settings),
        settings,
    })
}
