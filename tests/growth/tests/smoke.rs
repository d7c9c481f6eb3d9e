//! Tests of the measured cases: all documents are written, each on its node, in batches, and while requests wait.
#![allow(missing_docs)]

use anyhow::Result;
use bulk_reshuffle_growth::{Load, Site};
use bulk_reshuffle_large_state::LargeCluster;

#[tokio::test(flavor = "multi_thread")]
async fn documents_reach_their_primaries_on_thirty_nodes_with_three_hundred_shards() -> Result<()> {
    let site = Site::start(LargeCluster::with(30, 30, 10)).await?;
    // This fails unless all of them arrive, each on its node.
    let large = site.measure(Load { clients: 2, requests: 4, documents: 200, indices: 30, waiting: 0 }).await?;
    assert_eq!(large.documents, 800);
    assert!((1..=120).contains(&large.batches) && large.shares <= 120, "{large:?}");
    let small = site.measure(Load { clients: 40, requests: 200, documents: 1, indices: 1, waiting: 0 }).await?;
    assert_eq!((small.documents, small.shares), (200, 200));
    assert!(small.batches <= 200 && small.per_document() > 0.0, "{small:?}");
    site.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_served_while_requests_wait_for_one_node() -> Result<()> {
    let site = Site::start(LargeCluster::with(3, 1, 6)).await?;
    let beside = site.measure(Load { clients: 8, requests: 100, documents: 1, indices: 1, waiting: 50 }).await?;
    assert_eq!((beside.documents, beside.shares), (100, 100));
    site.finish().await
}
