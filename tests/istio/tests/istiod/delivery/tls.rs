//! Nodes that require TLS, behind a gateway with `components/tls`.

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bulk_reshuffle_e2e::{Authority, GuardedNodes, Guests, Wiretap};
use bulk_reshuffle_istio::{NAMESPACE, Nodes, Traffic};
use serde_json::{Value, json};

use super::{Mesh, Site};

/// The name in every node's certificate, which `values.yaml` expects.
const NAME: &str = "es-http.search.svc";

const OVERLAY: &str = "gateway-envoyfilter";

/// Checks that requests are split and that nothing is sent in plain text.
pub async fn split(site: &Site) -> Result<String> {
    let name = &format!("{OVERLAY}-tls");
    let authority = Authority::new()?;
    let guards = guard(site, name, &authority).await?;
    let (mut wires, mut pods) = (Vec::new(), site.set.pods.clone());
    for (pod, guard) in pods.iter_mut().zip(guards.addresses()) {
        pod.address = site.network.address()?;
        wires.push(Wiretap::start_at((pod.address, Nodes::PORT).into(), guard).await?);
    }
    let overlay = Mesh::overlay(site, OVERLAY, |folder| {
        folder.add_component(OVERLAY, "tls")?;
        folder.set_addresses(&pods)
    })?;
    let overlay = overlay.with_pods(|set| set.clone_from_slice(&pods)).with_objects([secret(&authority)]);
    let mesh = Mesh::start_splitting(site, name, &overlay).await?;
    let proven = mesh.check_split(name).await?;
    mesh.end().await?;
    for heard in wires.iter().flat_map(Wiretap::heard).filter(|heard| !heard.is_empty()) {
        ensure!(heard.starts_with(&[0x16, 3]), "a node received plain text");
    }
    guards.end().await?;
    Ok(proven)
}

/// Starts proxies in front of the nodes that terminate TLS.
async fn guard(site: &Site, name: &str, authority: &Authority) -> Result<GuardedNodes> {
    let nodes: Vec<_> = site.nodes.cluster.addresses().map(|(_, address)| address).collect();
    let identities: Vec<_> = nodes.iter().map(|_| authority.sign(NAME)).collect::<Result<_>>()?;
    GuardedNodes::start(site.folder(&format!("{name}-guards")), &nodes, &identities, Guests::All).await
}

/// Returns the Secret that `values.yaml` names.
fn secret(authority: &Authority) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "es-ca", "namespace": NAMESPACE},
        "data": {"ca.crt": BASE64_STANDARD.encode(&authority.certificate)},
    })
}
