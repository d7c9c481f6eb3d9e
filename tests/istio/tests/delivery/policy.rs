//! A policy that denies a bulk path, whether or not a request would be split.

use anyhow::Result;
use bulk_reshuffle_istio::{Kind, NAMESPACE, Overlay, Traffic};
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
    let (pods, relays) = site.pods_with_sidecars().await?;
    let inbound = pods.iter().zip(&relays).map(|(pod, relay)| pod.inbound(relay.address));
    // The policy applies from the start, because a new policy does not apply to existing connections until they are
    // drained.
    let objects = inbound.chain([policy(name, json!({"app": "es"}))]);
    let overlay = overlay.clone().with_pods(|set| set.clone_from_slice(&pods)).with_objects(objects);
    let mesh = Mesh::start(site, name, &overlay).await?.with_sidecars(&pods).await?;
    mesh.wait_splitting(name).await?;
    let proven = mesh.check_denied(name).await?;
    mesh.end().await?;
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
