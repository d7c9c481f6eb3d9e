//! Two clusters in one namespace, each with a copy of the manifests and a gateway of its own.

use anyhow::{Result, ensure};
use bulk_reshuffle_istio::{ControlPlane, Kind, NAMESPACE, Nodes, Pod, Proxy, Traffic};
use serde_json::{Map, Value, json};

use super::{Mesh, Site};

/// The second cluster, behind its gateway.
struct Second {
    nodes: Nodes,
    proxy: Proxy,
}

impl Traffic for Second {
    fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}

/// Delivers the manifests of both clusters together. Each gateway must split requests by the nodes of its own cluster,
/// and send nothing to those of the other.
pub async fn apart(site: &Site, overlay: &'static str, second: &'static str) -> Result<String> {
    let index = &format!("{overlay}-apart");
    let hosts = (0..3).map(|_| site.network.address()).collect::<Result<Vec<_>>>()?;
    let nodes = Nodes::start(&site.tools, site.folder("second-nodes"), hosts.clone()).await?;
    let pods = hosts.iter().enumerate();
    let pods = pods.map(|(n, host)| Pod::of_stateful_set(NAMESPACE, "logs", n, &label("app", "logs"), *host).object());
    let gateway = Pod::new(NAMESPACE, "logs-gateway", label("istio", "logs-gateway"), site.network.address()?);
    let second = Mesh::overlay(site, second, |folder| {
        folder.set([
            ("/elasticsearch/name", json!("logs")),
            ("/elasticsearch/podLabels", json!({"app": "logs"})),
            ("/gateway/labels", json!(gateway.labels)),
        ])
    })?;
    let both = Mesh::shipped(site, overlay)?.beside(&second.with_objects(pods), &gateway)?;
    nodes.make_index(index).await?;
    let first = Mesh::start_splitting(site, index, &both).await?;
    let folder = site.folder(&gateway.name);
    let proxy = first.control_plane.start_proxy(&site.tools, &folder, Kind::Gateway, &gateway).await?;
    let second = Second { nodes, proxy };
    second.wait_splitting(index).await?;
    let proven = first.check_split(index).await?;
    let strays = second.nodes.documents(index).await?.len();
    ensure!(strays == 0, "{strays} documents of the first cluster are in the second");
    site.nodes.make_index(index).await?;
    let again = second.check_split(index).await?;
    let strays = site.nodes.documents(index).await?.len();
    ensure!(strays == 0, "{strays} documents of the second cluster are in the first");
    second.proxy.check_filter().await?;
    first.end().await?;
    Ok(format!("in the first cluster: {proven}; in the second: {again}"))
}

fn label(name: &str, value: &str) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), json!(value))])
}
