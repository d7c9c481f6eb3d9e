//! Checks independently of the filter that each operation reaches its owning node. The cluster names the owner, and
//! Envoy's own counters of upstream requests (not the filter's) show the receiver.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use bulk_reshuffle::bulk::Action;
use bulk_reshuffle_stack::Envoy;

use crate::bulk::BulkRequest;
use crate::evidence::Evidence;
use crate::progress::Step;
use crate::site::Site;
use crate::workload;

const SAMPLE: usize = 1_200;
/// One operation in this number has a routing value.
const ROUTED_EVERY: usize = 4;

/// The number of sampled operations that reached their owners.
#[derive(Debug, Default)]
pub struct Placement {
    pub sample: usize,
    pub with_routing: usize,
    pub at_owner: usize,
    pub by_owner: BTreeMap<String, Share>,
    /// The first operation that did not reach its owner.
    pub problem: Option<String>,
}

/// The sampled operations that a node owns.
#[derive(Debug, Default)]
pub struct Share {
    pub owned: u64,
    pub arrived: u64,
}

/// Sends new documents through the filter one by one, and checks which node's counter grows after each.
pub async fn measure(site: &Site, evidence: &Evidence, index: &str) -> Result<Placement> {
    let step = Step::start_counted("owner and receiver of each operation, one by one through the filter", SAMPLE);
    let url = site.envoy.url(&format!("/{index}/_bulk"));
    let mut placement = Placement { sample: SAMPLE, ..Placement::default() };
    let mut before = requests_by_upstream(&site.envoy).await?;
    for number in 0..SAMPLE {
        let id = format!("sample-{number}");
        let routing = (number % ROUTED_EVERY == 0).then(|| format!("reader-{number}"));
        placement.with_routing += usize::from(routing.is_some());
        let owner = evidence.owner(index, routing.as_ref().unwrap_or(&id)).await?;

        let request = BulkRequest::new(vec![workload::write(Action::Index, id.clone(), routing, 201)])?;
        let answer = site.client.post_ndjson(&url, request.body.clone()).await?;
        request.check(&answer, index).context("in the sample")?;

        let after = requests_by_upstream(&site.envoy).await?;
        let grown = |(name, count): (&String, &u64)| (before.get(name) != Some(count)).then(|| name.clone());
        let receivers: Vec<String> = after.iter().filter_map(grown).collect();
        let share = placement.by_owner.entry(owner.clone()).or_default();
        share.owned += 1;
        if receivers == [owner.as_str()] {
            share.arrived += 1;
            placement.at_owner += 1;
        } else if placement.problem.is_none() {
            placement.problem = Some(format!("{id}: owned by {owner}, sent to [{}]", receivers.join(", ")));
        }
        before = after;
        step.advance();
    }
    step.finish();
    Ok(placement)
}

/// Returns Envoy's count of requests to each node's own cluster. It omits the coordinator, because the filter
/// also queries the cluster's state there. An operation that is sent there is missing from these counts.
async fn requests_by_upstream(envoy: &Envoy) -> Result<BTreeMap<String, u64>> {
    let stats = envoy.stats_with("upstream_rq_total").await?;
    let of_node = |(name, count): (String, u64)| {
        let cluster = name.strip_prefix("cluster.")?.strip_suffix(".upstream_rq_total")?;
        cluster.starts_with("es-").then(|| (cluster.to_owned(), count))
    };
    Ok(stats.into_iter().filter_map(of_node).collect())
}
