//! Failures of istiod and of the filter's VMs while everything else continues.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::forced_trap;
use bulk_reshuffle_istio::{Gate, Nodes, Overlay, Pod, Traffic, wide};
use bulk_reshuffle_stack::Client;
use bytes::Bytes;
use hyper::header::HOST;
use hyper::{Request, StatusCode};

use super::{Mesh, Site};

/// A short `idle_timeout` for the bulk routes, because their own is too long for a test. Other tests run meanwhile. On a
/// busy machine, no other request may wait this long.
const LAST_RESORT: Duration = Duration::from_secs(10);

/// Kills istiod's server, and checks that proxies keep their current configuration. No other row can use the mesh.
pub async fn istiod(site: &Site, overlay: &Overlay) -> Result<String> {
    let name = &format!("{}-alone", overlay.name);
    let mesh = Mesh::start_splitting(site, name, overlay).await?;
    mesh.control_plane.kill()?;
    let proven = mesh.check_split(name).await?;
    mesh.end().await?;
    Ok(proven)
}

/// Kills every worker's VM while one of them holds a request. The held request must fail after its idle timeout, and
/// the next requests must get new VMs. No other row can use the mesh, because it has another module.
pub async fn vm(site: &Site, overlay: &Overlay) -> Result<String> {
    let name = &format!("{}-dead-vm", overlay.name);
    let (victim, after) = (&format!("{name}-1"), &format!("{name}-2"));
    for index in [victim, after] {
        site.nodes.make_index(index).await?;
    }
    // Other rows use the node itself at the same time.
    let ip = site.network.address()?;
    let gate = Gate::start_at((ip, Nodes::PORT).into(), site.nodes.cluster.http_addr(1)?).await?;
    let moved = Pod { address: ip, ..site.set.pods[1].clone() };
    let overlay = Mesh::overlay(site, overlay.name, |folder| {
        folder.set_addresses(&[moved])?;
        folder.set_module(&forced_trap(env!("CARGO_TARGET_TMPDIR"))?)?;
        let (place, _) = overlay.name.split_once('-').context("the overlay's name has no place")?;
        let last_resort = format!("idle_timeout: {}s", LAST_RESORT.as_secs());
        folder.edit(&format!("components/{place}/bulk.yaml"), "idle_timeout: 150s", &last_resort)
    })?;
    let mesh = Mesh::start(site, name, &overlay.with_pods(|pods| pods[1].address = ip)).await?;
    mesh.wait_splitting(victim).await?;
    gate.close();
    let before = batches_for(&mesh, "es-1").await?;
    let (held, killed) = tokio::join!(mesh.bulk(&site.nodes.client, wide(victim)), async {
        let sent = async || Ok((batches_for(&mesh, "es-1").await? > before).then_some(()));
        mesh.wait_until("a batch is in flight", sent).await?;
        kill_vms(&mesh).await
    });
    gate.open();
    let (status, ended) = (held?.status.as_u16(), killed?.elapsed());
    ensure!(status >= 500 && ended < 3 * LAST_RESORT, "{status} after {ended:?}");
    mesh.wait_splitting(after).await?;
    mesh.check_split(after).await?;
    let reloads = mesh.sum("vm_reload_success").await?;
    ensure!(reloads >= 2, "only {reloads} VMs were restarted");
    Ok(format!("the held request failed after {:.0} s; new VMs split the next requests", ended.as_secs_f64()))
}

/// Kills the VM of every worker and returns the time of the first kill.
async fn kill_vms(mesh: &Mesh<'_>) -> Result<Instant> {
    let killed = Instant::now();
    for _ in 0..Mesh::CONNECTIONS {
        let deadly = Request::get(mesh.url("/")).header(HOST, Mesh::SERVICE).header("x-forced-trap", "1");
        let answer = Client::new().send(deadly.body(Bytes::new())?).await?;
        ensure!(answer.status == StatusCode::SERVICE_UNAVAILABLE, "{}", answer.text());
    }
    Ok(killed)
}

async fn batches_for(mesh: &Mesh<'_>, node: &str) -> Result<u64> {
    Ok(mesh.counted_by("batches", "upstream").await?.get(&mesh.upstream(node)).copied().unwrap_or_default())
}
