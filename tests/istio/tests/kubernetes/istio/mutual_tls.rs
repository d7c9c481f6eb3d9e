//! Mutual TLS between proxies, with certificates from istiod's CA.

use anyhow::{Result, ensure};
use bulk_reshuffle_istio::{Folder, Traffic};
use bulk_reshuffle_stack::Client;
use serde_json::json;

use super::{Mesh, Site};

/// Adds sidecars to the nodes, and checks that proxies use mutual TLS. With components/mtls, the nodes' sidecars refuse
/// plain text.
pub async fn split(site: &Site, overlay: &'static str, component: Option<&'static str>) -> Result<String> {
    let proven = split_by_sidecars(site, overlay, component).await;
    // Restore the pods without sidecars, also after a failure.
    site.deploy().await?;
    proven
}

async fn split_by_sidecars(site: &Site, overlay: &'static str, component: Option<&'static str>) -> Result<String> {
    let name = &format!("{overlay}-mutual-tls");
    site.nodes.make_index(name).await?;
    let (mut pods, relays) = site.pods_with_sidecars().await?;
    for pod in &mut pods {
        pod.labels.insert("security.istio.io/tlsMode".to_owned(), json!("istio"));
        site.servers.api.add_pod(pod).await?;
    }
    let inbound = pods.iter().zip(&relays).map(|(pod, relay)| pod.inbound(relay.address));
    let add = |folder: &Folder| {
        folder.set_addresses(&pods)?;
        component.into_iter().try_for_each(|one| folder.add_component(overlay, one))
    };
    let overlay = Mesh::overlay(site, overlay, add)?.with_objects(inbound);
    let mesh = Mesh::start(site, name, &overlay).await?;
    let sidecars = mesh.start_sidecars(&pods).await?;
    mesh.wait_splitting(name).await?;
    let proven = mesh.check_split(name).await?;
    for sidecar in &sidecars {
        let count: u64 = sidecar.stats(r"listener\..*ssl\.handshake").await?.values().sum();
        ensure!(count > 0, "no connection used TLS: {}", sidecar.process.log_extract());
        let plain = Client::new().get(&sidecar.url("/")).await;
        ensure!(plain.is_err() == component.is_some(), "unexpected result in plain text: {plain:?}");
    }
    mesh.end().await?;
    let plain = if component.is_some() { "refused" } else { "also accepted" };
    Ok(format!("{proven}; plain text is {plain}"))
}
