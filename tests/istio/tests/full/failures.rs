//! Modules that cannot be fetched, in place of which Istio's agent delivers a filter that denies every request, and
//! configurations that the filter rejects.

use anyhow::{Result, ensure};
use bulk_reshuffle_istio::Traffic;
use serde_json::json;

use crate::mesh::Mesh;
use crate::overlay::Overlay;
use crate::site::Site;

/// The agent's log line for a wrong digest, which is one of the three mistakes in the README.
const CANNOT_FETCH: &str = "cannot fetch Wasm module";

/// The type of the filter that the agent then delivers.
const DENIES: &str = "envoy.extensions.filters.http.rbac.v3.RBAC";

/// Starts a proxy with another module's digest in its values, and another proxy with a configuration that the filter
/// rejects. Requests must pass without the filter. Then the fault is fixed.
pub async fn cold_start(site: &Site, overlay: &Overlay) -> Result<String> {
    let mistaken = Overlay::with_module(overlay.name, &site.module.mistaken())?;
    for (fault, faulty) in [("digest", mistaken), ("configuration", wrong(overlay)?)] {
        let name = &format!("{}-cold-{fault}", overlay.name);
        let [plain, split] = indices(site, name).await?;
        let mesh = Mesh::start(site, name, &faulty).await?;
        mesh.wait_refused(1).await?;
        if fault == "digest" {
            check_digests(site, overlay, &mesh.wait_logged(CANNOT_FETCH).await?)?;
        }
        mesh.check_pass(&plain).await?;
        let before = mesh.deliveries().await?;
        mesh.apply(overlay).await?;
        mesh.wait_taken(before).await?;
        mesh.wait_splitting(&split).await?;
        mesh.check_split(&split).await?;
        mesh.end_refused().await?;
    }
    Ok("each fault is rejected and requests pass without the filter; after the fix, they are split".to_owned())
}

/// Delivers another module's digest, then an address without a server, then an invalid configuration to a working
/// proxy, which must keep its configuration. Then it gets the first configuration again.
pub async fn later(site: &Site, overlay: &Overlay) -> Result<String> {
    let name = &format!("{}-later", overlay.name);
    let [digest, address, configuration, rolled_back] = indices(site, name).await?;
    let mesh = Mesh::start(site, name, overlay).await?;
    mesh.wait_splitting(&rolled_back).await?;
    for (count, module, index) in [(1, site.module.mistaken(), digest), (2, site.module.nowhere()?, address)] {
        mesh.apply(&Overlay::with_module(overlay.name, &module)?).await?;
        mesh.wait_refused(count).await?;
        mesh.wait_logged(DENIES).await?;
        mesh.check_split(&index).await?;
    }
    mesh.apply(&wrong(overlay)?).await?;
    mesh.wait_refused(3).await?;
    mesh.check_split(&configuration).await?;
    let before = mesh.deliveries().await?;
    mesh.apply(overlay).await?;
    mesh.wait_taken(before).await?;
    mesh.wait_splitting(&rolled_back).await?;
    mesh.check_split(&rolled_back).await?;
    mesh.end_refused().await?;
    Ok("each fault is rejected and requests are still split, also after the rollback".to_owned())
}

/// Returns the overlay with a configuration that the filter rejects.
fn wrong(overlay: &Overlay) -> Result<Overlay> {
    overlay.clone().with_configuration(&json!({"hold": {"interval": 50}}))
}

/// Checks that a log line has both digests: the user can copy the right one into the values.
fn check_digests(site: &Site, overlay: &Overlay, line: &str) -> Result<()> {
    let (right, wrong) = (&site.module, site.module.mistaken());
    let digests = match overlay.name.ends_with("envoyfilter") {
        true => [&right.sha256, &wrong.sha256],
        false => [&right.digest, &wrong.digest],
    };
    ensure!(digests.iter().all(|digest| line.contains(*digest)), "the log line does not have both digests: {line}");
    Ok(())
}

/// Creates indices before the proxy starts, so that it knows them from the start.
async fn indices<const N: usize>(site: &Site, name: &str) -> Result<[String; N]> {
    let names = std::array::from_fn(|number| format!("{name}-{number}"));
    for name in &names {
        site.nodes.make_index(name).await?;
    }
    Ok(names)
}
