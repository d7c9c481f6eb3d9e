//! Changes of the nodes' pods.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::Wiretap;
use bulk_reshuffle_istio::{COORDINATOR, Nodes, Overlay, Pod, Traffic, wide};
use bulk_reshuffle_stack::Client;

use super::Mesh;

/// Moves a pod to another address, to which its share must go: the upstream that is its own follows it.
pub async fn moved(mesh: &Mesh<'_>, overlay: &Overlay) -> Result<String> {
    let (site, name) = (mesh.site, &format!("{}-moved", mesh.name()));
    site.nodes.make_index(name).await?;
    mesh.wait_splitting(name).await?;
    let ip = site.network.address()?;
    let elsewhere = Wiretap::start_at((ip, Nodes::PORT).into(), site.nodes.cluster.http_addr(1)?).await?;
    let moved = overlay.clone().with_pods(|pods| pods[1].address = ip);
    mesh.apply(&moved).await?;
    wait_endpoints(mesh, &mesh.upstream("es-1"), &[elsewhere.address]).await?;
    mesh.check_split(name).await?;
    let bulks = elsewhere.heard().iter().filter(|heard| String::from_utf8_lossy(heard).contains("/_bulk")).count();
    ensure!(bulks > 0, "nothing was sent to the new address");
    put_back(mesh, overlay).await?;
    Ok("requests are split, the moved pod's share at its new address".to_owned())
}

/// Marks a pod as not ready for a while, during which other pods must get its share.
pub async fn not_ready(mesh: &Mesh<'_>, overlay: &Overlay) -> Result<String> {
    let name = &format!("{}-not-ready", mesh.name());
    let (without, again) = (&format!("{name}-1"), &format!("{name}-2"));
    for index in [without, again] {
        mesh.site.nodes.make_index(index).await?;
    }
    mesh.wait_splitting(without).await?;
    let mut pods = mesh.site.set.pods.clone();
    pods[1].is_ready = false;
    mesh.apply(&overlay.clone().with_pods(|set| set.clone_from_slice(&pods))).await?;
    wait_pods(mesh, &pods).await?;
    let (diverted, passed) = mesh.check_diverted(without, "es-1").await?;
    put_back(mesh, overlay).await?;
    wait_direct(mesh, again).await?;
    mesh.wait_splitting(again).await?;
    mesh.check_split(again).await?;
    let passed = if passed.is_empty() { String::new() } else { format!(" ({passed:?} requests passed through)") };
    Ok(format!("its {diverted} documents went to `any.es.internal`{passed}; then requests were split again"))
}

/// The counters of batches and operations that were not sent to their node.
const ELSEWHERE: &str = "(batches_redirected|operations_unrouted)";

/// Applies the overlay with the nodes' own pods, and waits until each upstream has its pod again.
pub async fn put_back(mesh: &Mesh<'_>, overlay: &Overlay) -> Result<()> {
    mesh.apply(overlay).await?;
    wait_pods(mesh, &mesh.site.set.pods).await
}

/// Waits until the upstreams have exactly these pods, if they are ready: one that has all of them, or one for each.
pub async fn wait_pods(mesh: &Mesh<'_>, pods: &[Pod]) -> Result<()> {
    let ready = |pod: &Pod| pod.is_ready.then_some(SocketAddr::from((pod.address, Nodes::PORT)));
    let all: Vec<SocketAddr> = pods.iter().filter_map(ready).collect();
    wait_endpoints(mesh, COORDINATOR, &all).await?;
    for pod in pods.iter().filter(|_| mesh.is_named()) {
        wait_endpoints(mesh, &mesh.upstream(&pod.name), ready(pod).as_slice()).await?;
    }
    Ok(())
}

/// Waits until every worker sends each node's share to that node.
pub async fn wait_direct<T: Traffic>(mesh: &T, index: &str) -> Result<()> {
    mesh.wait_until("each node gets its share", async || {
        let before = mesh.counted(ELSEWHERE).await?;
        for _ in 0..T::CONNECTIONS {
            mesh.bulk(&Client::new(), wide(index)).await?;
        }
        Ok((mesh.counted(ELSEWHERE).await? == before).then_some(()))
    })
    .await
}

/// Waits until an Envoy cluster has exactly these endpoints.
pub async fn wait_endpoints(mesh: &Mesh<'_>, upstream: &str, addresses: &[SocketAddr]) -> Result<()> {
    mesh.wait_until(&format!("{upstream} has exactly {addresses:?}"), async || {
        let clusters = mesh.proxy.admin_text("/clusters").await?;
        let healths = clusters.lines().filter_map(|line| line.strip_prefix(&format!("{upstream}::")));
        let endpoints = healths.filter_map(|line| line.split_once("::health_flags")?.0.parse().ok());
        Ok((endpoints.collect::<BTreeSet<SocketAddr>>() == addresses.iter().copied().collect()).then_some(()))
    })
    .await
}
