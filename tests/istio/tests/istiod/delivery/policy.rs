//! A policy that denies a bulk path, whether or not a request would be split.

use anyhow::Result;
use bulk_reshuffle_istio::{Kind, NAMESPACE, Overlay, Traffic};
use serde_json::{Value, json};

use super::Mesh;
use super::pods::{put_back, wait_pods};

/// Checks that a policy denies a bulk path. In a gateway, the gateway itself enforces the policy, before the filter.
/// For a client's sidecar, the nodes' sidecars enforce it, because a batch has the path and the caller of its requests.
pub async fn denied(mesh: &Mesh<'_>, overlay: &Overlay) -> Result<String> {
    let name = &format!("{}-denied", overlay.name);
    mesh.site.nodes.make_index(name).await?;
    mesh.wait_splitting(name).await?;
    match overlay.kind {
        Kind::Gateway => by_gateway(mesh, name, overlay).await,
        Kind::Sidecar => by_nodes(mesh, name, overlay).await,
    }
}

async fn by_gateway(mesh: &Mesh<'_>, name: &str, overlay: &Overlay) -> Result<String> {
    mesh.apply(&overlay.clone().with_objects([policy(name, overlay.labels().into())])).await?;
    let proven = mesh.check_denied(name).await?;
    mesh.apply(overlay).await?;
    Ok(proven)
}

async fn by_nodes(mesh: &Mesh<'_>, name: &str, overlay: &Overlay) -> Result<String> {
    let (pods, relays) = mesh.site.pods_with_sidecars().await?;
    let inbound = pods.iter().zip(&relays).map(|(pod, relay)| pod.inbound(relay.address));
    // The policy applies from the sidecars' start, because a new policy does not apply to existing connections until
    // they are drained.
    let objects = inbound.chain([policy(name, json!({"app": "es"}))]);
    let behind_sidecars = Mesh::overlay(mesh.site, overlay.name, |folder| folder.set_addresses(&pods))?;
    mesh.apply(&behind_sidecars.with_pods(|set| set.clone_from_slice(&pods)).with_objects(objects)).await?;
    let _sidecars = mesh.start_sidecars(&pods).await?;
    wait_pods(mesh, &pods).await?;
    mesh.wait_splitting(name).await?;
    let proven = mesh.check_denied(name).await?;
    put_back(mesh, overlay).await?;
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
