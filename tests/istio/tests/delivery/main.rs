//! Tests with traffic: istiod delivers the manifests to a real Envoy in front of a real three-node cluster.

mod ends;
mod failures;
mod mistakes;
mod pods;
mod policy;
mod tls;

use anyhow::Result;
use bulk_reshuffle_istio::{Discovery, Network, OVERLAYS, Overlay, Report, Site, Traffic};

/// A mesh whose istiod reads files.
type Mesh<'a> = bulk_reshuffle_istio::Mesh<'a, Discovery>;

/// Runs the tests one after the other, because each of them needs all processors.
#[tokio::test(flavor = "multi_thread")]
async fn manifests_that_istiod_delivers_handle_traffic() -> Result<()> {
    let mut report = Report::wanted();
    let site = Site::start(Network::find()?, async |_, _| Ok(())).await?;
    println!("the cluster started in {}", report.elapsed());
    for name in OVERLAYS {
        let overlay = &Mesh::shipped(&site, name)?;
        report.add(name, "as shipped", split(&site, overlay)).await;
        report.add(name, "a policy denies a bulk path", policy::denied(&site, overlay)).await;
        report.add(name, "changed under load", Mesh::change_under_load(&site, overlay)).await;
        report.add(name, "no module, a broken one, a wrong configuration", failures::later(&site, overlay)).await;
        report.add(name, "the same at the start", failures::cold_start(&site, overlay)).await;
        report.add(name, "the VMs die", ends::vm(&site, overlay)).await;
    }
    for name in ["gateway-envoyfilter", "sidecar-wasmplugin"] {
        let overlay = &Mesh::shipped(&site, name)?;
        report.add(name, "a pod gets another address", pods::moved(&site, overlay)).await;
        report.add(name, "a pod is not ready", pods::not_ready(&site, overlay)).await;
        report.add(name, "istiod is away", ends::istiod(&site, overlay)).await;
    }
    for name in ["gateway-envoyfilter", "sidecar-wasmplugin"] {
        let overlay = &Mesh::shipped(&site, name)?;
        report.add(name, "another StatefulSet's name", mistakes::other_names(&site, name)).await;
        report.add(name, "a client with TLS", mistakes::tls(&site, overlay)).await;
    }
    let overlay =
        &Mesh::overlay(&site, "gateway-envoyfilter", |folder| folder.add_component("gateway-envoyfilter", "tls"))?;
    report.add("gateway-envoyfilter with components/tls", "to nodes with TLS", tls::split(&site, overlay)).await;
    println!("\n{report}");
    report.result()
}

/// Checks that requests are split and merged.
async fn split(site: &Site, overlay: &Overlay) -> Result<String> {
    let mesh = Mesh::start_splitting(site, overlay.name, overlay).await?;
    let proven = mesh.check_split(overlay.name).await?;
    mesh.end().await?;
    Ok(proven)
}
