//! A policy that denies a bulk path, whether or not a request would be split.

use anyhow::Result;
use bulk_reshuffle_e2e::Wiretap;
use bulk_reshuffle_istio::{Kind, NAMESPACE, Overlay, Proxy, Traffic};
use serde_json::{Value, json};

use crate::{Mesh, Site};

/// Checks that a policy denies a bulk path. In a gateway, the gateway itself enforces the policy, before the filter.
/// For a client's sidecar, the nodes' sidecars enforce it, because a batch has the path and the caller of its requests.
pub async fn denied(site: &Site, overlay: &Overlay) -> Result<String> {
    match overlay.kind {
        Kind::Gateway => by_gateway(site, overlay).await,
        Kind::Sidecar => by_nodes(site, overlay).await,
    }
}

async fn by_gateway(site: &Site, overlay: &Overlay) -> Result<String> {
    let name = &format!("{}-denied", overlay.name);
    let mesh = Mesh::start_splitting(site, name, overlay).await?;
    mesh.apply(&overlay.clone().with_objects([policy(name, overlay.labels().into())])).await?;
    let proven = mesh.check_denied(name).await?;
    mesh.end().await?;
    Ok(proven)
}

async fn by_nodes(site: &Site, overlay: &Overlay) -> Result<String> {
    let name = &format!("{}-denied", overlay.name);
    site.nodes.make_index(name).await?;
    let (mut overlay, mut pods, mut nodes) = (overlay.clone(), Vec::new(), Vec::new());
    for (_, address) in site.nodes.cluster.addresses() {
        let (node, sidecar) = (Wiretap::start(address).await?, site.network.address()?);
        overlay = overlay.with_pods(|set| {
            let pod = &mut set[nodes.len()];
            pod.address = sidecar;
            pods.push(pod.clone());
        });
        nodes.push(node);
    }
    overlay = overlay.with_objects(pods.iter().zip(&nodes).map(|(pod, node)| pod.inbound(node.address)));
    // The policy applies from the start, because a new policy does not apply to existing connections until they are
    // drained.
    overlay = overlay.with_objects([policy(name, json!({"app": "es"}))]);
    let mesh = Mesh::start(site, name, &overlay).await?;
    let mut sidecars = Vec::new();
    for pod in &pods {
        sidecars.push(mesh.start_sidecar(pod).await?);
    }
    mesh.wait_splitting(name).await?;
    let proven = mesh.check_denied(name).await?;
    mesh.end().await?;
    for sidecar in sidecars {
        sidecar.stop().await?;
    }
    Ok(format!("{proven}; the nodes' sidecars deny it"))
}

/// Returns a policy that denies bulk requests to the path of an index, for proxies with these labels.
fn policy(index: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "security.istio.io/v1",
        "kind": "AuthorizationPolicy",
        "metadata": {"name": "no-bulk", "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "action": "DENY",
            "rules": [{"to": [{"operation": {"paths": [format!("/{index}/_bulk")]}}]}],
        },
    })
}
