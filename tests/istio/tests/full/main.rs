//! Tests of the manifests with traffic: the real API server and istiod validate them, istiod delivers them, and Istio's
//! own agent fetches the filter for a real Envoy in front of a real three-node cluster.

mod admission;
mod failures;
#[allow(dead_code)]
#[path = "../manifests/folder.rs"]
mod folder;
mod mesh;
mod mutual_tls;
mod overlay;
mod pages;
// The nodes and the changes are shared with the test without Kubernetes.
#[path = "../delivery/site.rs"]
mod place;
mod site;
#[allow(dead_code)]
#[path = "../delivery/stateful_set.rs"]
mod stateful_set;
#[path = "../delivery/update.rs"]
mod update;

use std::time::Instant;

use anyhow::Result;
use bulk_reshuffle_istio::{Report, Traffic};
use bulk_reshuffle_stack::enter_private_network;

use mesh::Mesh;
use overlay::Overlay;
use site::Site;

#[test]
fn manifests_that_kubectl_applies_handle_traffic() -> Result<()> {
    enter_private_network()?;
    tokio::runtime::Runtime::new()?.block_on(everything())
}

/// Runs the tests one after the other, because each of them needs all processors.
async fn everything() -> Result<()> {
    let started = Instant::now();
    let site = Site::start().await?;
    println!("the cluster, Kubernetes and istiod started in {:.0} s", started.elapsed().as_secs_f64());
    let mut report = Report::wanted();
    admission::check(&site, &mut report).await;
    site.deploy().await?;
    for name in [
        "gateway-envoyfilter",
        "gateway-wasmplugin",
        "gateway-trafficextension",
        "sidecar-envoyfilter",
        "sidecar-wasmplugin",
    ] {
        let overlay = Overlay::shipped(&site, name)?;
        let delivery = if name.ends_with("envoyfilter") { "by HTTP" } else { "from a registry" };
        report.add(name, delivery, split(&site, &overlay)).await;
    }
    for name in ["gateway-envoyfilter", "gateway-wasmplugin"] {
        let overlay = Overlay::shipped(&site, name)?;
        report
            .add(name, "another digest or a wrong configuration, at the start", failures::cold_start(&site, &overlay))
            .await;
        report.add(name, "another digest, no server, a wrong configuration", failures::later(&site, &overlay)).await;
        report.add(name, "changed under load", update::under_load(&site, &overlay)).await;
    }
    for name in ["gateway-envoyfilter", "sidecar-wasmplugin"] {
        let by_itself = mutual_tls::split(&site, name, None);
        report.add(name, "to nodes with sidecars", by_itself).await;
        let insisting = mutual_tls::split(&site, name, Some("mtls"));
        report.add(&format!("{name} with components/mtls"), "to nodes with sidecars", insisting).await;
    }
    println!("\n{report}\n{:.0} s", started.elapsed().as_secs_f64());
    site.stop().await?;
    report.result()
}

/// Checks that requests are split and merged, and that Prometheus gets the filter's metrics.
async fn split(site: &Site, overlay: &Overlay) -> Result<String> {
    site.nodes.make_index(overlay.name).await?;
    let mesh = Mesh::start(site, overlay.name, overlay).await?;
    mesh.wait_splitting(overlay.name).await?;
    let proven = mesh.check_split(overlay.name).await?;
    mesh.check_metrics().await?;
    mesh.end().await?;
    Ok(proven)
}
