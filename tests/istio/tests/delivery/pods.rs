//! Changes of the nodes' pods.

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::{Wiretap, lines};
use bulk_reshuffle_istio::Traffic;
use bulk_reshuffle_stack::{Client, wait};

use crate::mesh::Mesh;
use crate::overlay::Overlay;
use crate::site::{LIMIT, PORT, Site};

/// Moves a pod to another address, to which its share must go.
pub async fn moved(site: &Site, overlay: &Overlay) -> Result<String> {
    let name = &format!("{}-moved", overlay.name);
    site.nodes.make_index(name).await?;
    let mesh = Mesh::start(site, name, overlay).await?;
    mesh.wait_splitting(name).await?;
    let ip = site.network.address()?;
    let elsewhere = Wiretap::start_at((ip, PORT).into(), site.nodes.cluster.http_addr(1)?).await?;
    let moved = overlay.clone().with_pods(|pods| pods[1].address = ip);
    mesh.apply(&moved).await?;
    mesh.wait_endpoints("es-1", &[elsewhere.address]).await?;
    mesh.check_split(name).await?;
    let bulks = elsewhere.heard().iter().filter(|heard| String::from_utf8_lossy(heard).contains("/_bulk")).count();
    ensure!(bulks > 0, "nothing was sent to the new address");
    mesh.end().await?;
    Ok("requests are split, the moved pod's share at its new address".to_owned())
}

/// Marks a pod as not ready for a while, during which other pods must get its share.
pub async fn not_ready(site: &Site, overlay: &Overlay) -> Result<String> {
    let name = &format!("{}-not-ready", overlay.name);
    let (without, again) = (&format!("{name}-1"), &format!("{name}-2"));
    for index in [without, again] {
        site.nodes.make_index(index).await?;
    }
    let mesh = Mesh::start(site, name, overlay).await?;
    mesh.wait_splitting(without).await?;
    mesh.apply(&overlay.clone().with_pods(|pods| pods[1].is_ready = false)).await?;
    mesh.wait_endpoints("es-1", &[]).await?;
    let diverted = mesh.check_diverted(without, "es-1").await?;
    mesh.apply(overlay).await?;
    mesh.wait_endpoints("es-1", &[site.nodes.cluster.http_addr(1)?]).await?;
    mesh.wait_direct(again).await?;
    mesh.check_split(again).await?;
    mesh.end().await?;
    Ok(format!("its {diverted} documents went to `any.es.internal`; then requests were split again"))
}

/// The counters of batches and operations that were not sent to their node.
const ELSEWHERE: &str = "(batches_redirected|operations_unrouted)";

impl Mesh<'_> {
    /// Waits until every worker sends each node's share to that node.
    async fn wait_direct(&self, index: &str) -> Result<()> {
        let wide: String = (0..60).map(|number| lines::delete(index, &number.to_string())).collect();
        wait::until(LIMIT, "each node gets its share", async || {
            let before = self.counted(ELSEWHERE).await?;
            for _ in 0..Mesh::CONNECTIONS {
                self.bulk(&Client::new(), wide.clone()).await?;
            }
            Ok((self.counted(ELSEWHERE).await? == before).then_some(()))
        })
        .await
    }
}
