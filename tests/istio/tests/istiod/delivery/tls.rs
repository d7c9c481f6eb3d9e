//! Nodes that require TLS, behind a gateway with `components/tls`.

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bulk_reshuffle_e2e::{Authority, GuardedNodes, Guests, Wiretap};
use bulk_reshuffle_istio::{NAMESPACE, Nodes, Overlay, Traffic};
use serde_json::{Value, json};

use super::{Mesh, Site};

/// The name in every node's certificate, which `values.yaml` expects.
const NAME: &str = "es-http.search.svc";

/// Checks that requests are split and that nothing is sent in plain text.
pub async fn split(site: &Site, overlay: &Overlay) -> Result<String> {
    let name = &format!("{}-tls", overlay.name);
    let authority = Authority::new()?;
    let guards = guard(site, name, &authority).await?;
    let mut wires = Vec::new();
    let mut overlay = overlay.clone().with_objects([secret(&authority)]);
    for (index, guard) in guards.addresses().into_iter().enumerate() {
        let ip = site.network.address()?;
        wires.push(Wiretap::start_at((ip, Nodes::PORT).into(), guard).await?);
        overlay = overlay.with_pods(|pods| pods[index].address = ip);
    }
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
