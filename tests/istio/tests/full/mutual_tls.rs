//! Mutual TLS between proxies, with certificates from istiod's CA.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Result, ensure};
use bulk_reshuffle_istio::{Agent, Kind, Pod, Proxy, Traffic, stats};
use bulk_reshuffle_stack::Client;
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::mesh::Mesh;
use crate::overlay::Overlay;
use crate::site::{NAMESPACE, PORT, Site};

/// A node with a sidecar: the sidecar is at the pod's address, and the node behind it on loopback.
struct Node {
    pod: Pod,
    local: SocketAddr,
}

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
    let (mut relays, mut nodes) = (JoinSet::new(), Vec::new());
    for plain in &site.set.pods {
        let mut pod = plain.clone();
        pod.address = site.network.address()?;
        pod.labels.insert("security.istio.io/tlsMode".to_owned(), json!("istio"));
        let local = relay(&mut relays, plain.address).await?;
        site.api.add_pod(&pod).await?;
        nodes.push(Node { pod, local });
    }
    let overlay = Overlay::with_components(site, overlay, component)?.with_objects(nodes.iter().map(Node::inbound));
    let mesh = Mesh::start(site, name, &overlay).await?;
    let mut sidecars = Vec::new();
    for node in &nodes {
        let folder = site.folder(&format!("{name}-{}", node.pod.name));
        let sidecar = Agent::start(&site.tools, &folder, Kind::Sidecar, &node.pod, &site.api, &site.istiod).await?;
        sidecar.wait_listening().await?;
        sidecars.push(sidecar);
    }
    mesh.wait_splitting(name).await?;
    let proven = mesh.check_split(name).await?;
    for sidecar in &sidecars {
        ensure!(handshakes(sidecar).await? > 0, "no connection used TLS: {}", sidecar.process().log_extract());
        let plain = Client::new().get(&sidecar.url("/")).await;
        ensure!(plain.is_err() == component.is_some(), "unexpected result in plain text: {plain:?}");
    }
    mesh.end().await?;
    for sidecar in sidecars {
        sidecar.stop().await?;
    }
    let plain = if component.is_some() { "refused" } else { "also accepted" };
    Ok(format!("{proven}; plain text is {plain}"))
}

impl Node {
    /// Returns a Sidecar in place of the kernel rules that redirect a pod's connections to its sidecar.
    fn inbound(&self) -> Value {
        json!({
            "apiVersion": "networking.istio.io/v1",
            "kind": "Sidecar",
            "metadata": {"name": self.pod.name, "namespace": NAMESPACE},
            "spec": {
                "workloadSelector": {"labels": {"statefulset.kubernetes.io/pod-name": self.pod.name}},
                "ingress": [{
                    "port": {"number": PORT, "name": "http", "protocol": "HTTP"},
                    "bind": self.pod.address.to_string(),
                    "captureMode": "NONE",
                    "defaultEndpoint": self.local.to_string(),
                }],
                "egress": [{"hosts": ["~/*"]}],
            },
        })
    }
}

/// Relays a free port on loopback to a node. Sidecars forward only to loopback, where three nodes cannot share a port.
async fn relay(relays: &mut JoinSet<()>, node: Ipv4Addr) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    relays.spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut node = TcpStream::connect((node, PORT)).await?;
                copy_bidirectional(&mut client, &mut node).await
            });
        }
    });
    Ok(address)
}

async fn handshakes(sidecar: &Agent) -> Result<u64> {
    Ok(stats(&Client::new(), sidecar.admin(), r"listener\..*ssl\.handshake").await?.values().sum())
}
