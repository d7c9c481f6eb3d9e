//! The manifests, delivered by istiod to a real Envoy in front of a real three-node cluster, with traffic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod failures;
// What writes under load and remembers what it was told, as in the tests of faults.
#[path = "../../../e2e/tests/faults/ledger.rs"]
mod ledger;
#[allow(dead_code)]
#[path = "../../../e2e/tests/faults/load.rs"]
mod load;
mod mesh;
mod report;
mod site;
#[path = "../../../e2e/tests/faults/tally.rs"]
mod tally;
mod traffic;
mod update;
#[allow(dead_code)]
#[path = "../../../e2e/tests/faults/writer.rs"]
mod writer;

use std::time::Instant;

use anyhow::Result;
use bulk_reshuffle_istio::Kind;

use mesh::Mesh;
use report::Report;
use site::Site;

/// One after the other: all of them want the processors that the machine has.
#[tokio::test(flavor = "multi_thread")]
async fn what_istiod_delivers_carries_traffic() -> Result<()> {
    let (mut report, started) = (Report::default(), Instant::now());
    let site = Site::start().await?;
    println!("the cluster is there after {:.0} s", started.elapsed().as_secs_f64());
    for (overlay, kind) in [
        ("gateway-envoyfilter", Kind::Gateway),
        ("gateway-wasmplugin", Kind::Gateway),
        ("gateway-trafficextension", Kind::Gateway),
        ("sidecar-envoyfilter", Kind::Sidecar),
        ("sidecar-wasmplugin", Kind::Sidecar),
    ] {
        report.add(overlay, "as shipped", split(&site, overlay, kind).await);
    }
    for overlay in ["gateway-envoyfilter", "gateway-wasmplugin"] {
        report.add(overlay, "changed under load", update::under_load(&site, overlay).await);
        report.add(overlay, "a broken module, then a bad configuration", failures::later(&site, overlay).await);
    }
    let overlay = "gateway-envoyfilter";
    report.add(overlay, "a broken module at the start", failures::cold_start(&site, overlay).await);
    println!("\n{report}\n{:.0} s", started.elapsed().as_secs_f64());
    report.result()
}

/// Requests are split and merged.
async fn split(site: &Site, overlay: &str, kind: Kind) -> Result<String> {
    site.make_index(overlay).await?;
    let mesh = Mesh::start(site, overlay, kind, &site.overlay(overlay)?).await?;
    mesh.wait_splitting(overlay).await?;
    let proven = mesh.check_split(overlay).await?;
    mesh.end().await?;
    Ok(proven)
}
