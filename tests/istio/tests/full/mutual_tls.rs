//! Mutual TLS between proxies, with certificates from istiod's CA.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Result, ensure};
use bulk_reshuffle_istio::{Agent, Folder, Nodes, Proxy, Traffic, stats};
use bulk_reshuffle_stack::Client;
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::{Mesh, Site};

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
    let (mut relays, mut pods, mut inbound) = (JoinSet::new(), Vec::new(), Vec::new());
    for plain in &site.set.pods {
        let mut pod = plain.clone();
        pod.address = site.network.address()?;
        pod.labels.insert("security.istio.io/tlsMode".to_owned(), json!("istio"));
        inbound.push(pod.inbound(relay(&mut relays, plain.address).await?));
        site.servers.api.add_pod(&pod).await?;
        pods.push(pod);
    }
    let add = |folder: &Folder| component.into_iter().try_for_each(|one| folder.add_component(overlay, one));
    let overlay = Mesh::overlay(site, overlay, add)?.with_objects(inbound);
    let mesh = Mesh::start(site, name, &overlay).await?;
    let mut sidecars = Vec::new();
    for pod in &pods {
        sidecars.push(mesh.start_sidecar(pod).await?);
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

/// Relays a free port on loopback to a node. Sidecars forward only to loopback, where three nodes cannot share a port.
async fn relay(relays: &mut JoinSet<()>, node: Ipv4Addr) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    relays.spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut node = TcpStream::connect((node, Nodes::PORT)).await?;
                copy_bidirectional(&mut client, &mut node).await
            });
        }
    });
    Ok(address)
}

async fn handshakes(sidecar: &Agent) -> Result<u64> {
    Ok(stats(&Client::new(), sidecar.admin(), r"listener\..*ssl\.handshake").await?.values().sum())
}
