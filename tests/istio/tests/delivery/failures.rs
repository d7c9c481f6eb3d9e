//! Modules and configurations that Envoy cannot use.

use std::fs;

use anyhow::{Result, ensure};
use bulk_reshuffle_istio::Traffic;
use serde_json::json;

use crate::mesh::Mesh;
use crate::overlay::Overlay;
use crate::site::Site;

/// A fault in the delivered manifests.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// A file that is not a Wasm module.
    Module,
    /// A configuration that the filter rejects.
    Configuration,
    /// A module that cannot be fetched: Istio's agent then delivers a filter that denies every request.
    Address,
}

const FAULTS: [Fault; 3] = [Fault::Module, Fault::Configuration, Fault::Address];

impl Fault {
    fn put_into(self, site: &Site, overlay: &Overlay) -> Result<Overlay> {
        let overlay = overlay.clone();
        match self {
            Self::Module => {
                let path = site.folder("broken.wasm");
                fs::write(&path, "not wasm")?;
                overlay.with_module(&path)
            }
            Self::Configuration => overlay.with_configuration(&json!({"hold": {"interval": 50}})),
            // No server listens on this port.
            Self::Address => overlay.with_module_url("http://127.0.0.1:1/bulk_reshuffle.wasm"),
        }
    }
}

/// Starts a proxy with each of the faults. It must listen, and requests must pass without the filter. Then the proxy
/// gets working manifests.
pub async fn cold_start(site: &Site, overlay: &Overlay) -> Result<String> {
    for fault in FAULTS {
        let name = &format!("{}-cold-{fault:?}", overlay.name).to_lowercase();
        let [plain, split] = indices(site, name).await?;
        let mesh = Mesh::start(site, name, &fault.put_into(site, overlay)?).await?;
        mesh.wait_refused(1).await?;
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

/// Delivers one fault after the other to a working proxy, which must keep its configuration. Then it gets the first
/// configuration again.
pub async fn later(site: &Site, overlay: &Overlay) -> Result<String> {
    let name = &format!("{}-later", overlay.name);
    let [rolled_back, faulty @ ..] = indices::<{ 1 + FAULTS.len() }>(site, name).await?;
    let mesh = Mesh::start(site, name, overlay).await?;
    mesh.wait_splitting(&rolled_back).await?;
    for ((fault, count), index) in FAULTS.into_iter().zip(1..).zip(faulty) {
        mesh.apply(&fault.put_into(site, overlay)?).await?;
        mesh.wait_refused(count).await?;
        mesh.check_split(&index).await?;
    }
    let before = mesh.deliveries().await?;
    ensure!(before.1 == FAULTS.len() as u64, "{} accepted, {} rejected", before.0, before.1);
    mesh.apply(overlay).await?;
    mesh.wait_taken(before).await?;
    mesh.wait_splitting(&rolled_back).await?;
    mesh.check_split(&rolled_back).await?;
    mesh.end_refused().await?;
    Ok("each fault is rejected and requests are still split, also after the rollback".to_owned())
}

/// Creates indices before the proxy starts, so that it knows them from the start.
async fn indices<const N: usize>(site: &Site, name: &str) -> Result<[String; N]> {
    let names = std::array::from_fn(|number| format!("{name}-{number}"));
    for name in &names {
        site.nodes.make_index(name).await?;
    }
    Ok(names)
}
