//! What holding makes of many requests: the filter's real engine in virtual time, in front of nodes that are no more
//! than queues. The same arrivals are then sent to the same nodes directly.
//!
//! A node carries out one batch after the other, each in a fixed time and a time for each operation. The network takes
//! none. So the figures tell how batches form and what queues do, not how quick a cluster is.

mod agenda;
mod arrivals;
mod directly;
mod filtered;
mod node;
mod report;
mod settings;

pub use report::{Batches, Latency, NodeReport, Report, Run};
pub use settings::Settings;

use crate::cluster::{Cluster, Unusable};
use arrivals::Arrivals;

/// Lets requests come that are made of a body's operations, and tells what became of them. The same seed makes the same
/// day.
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
