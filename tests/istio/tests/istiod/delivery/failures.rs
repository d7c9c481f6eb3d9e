//! Modules and configurations that Envoy cannot use.

use std::fs;

use anyhow::Result;
use bulk_reshuffle_istio::{Fault, Overlay};
use serde_json::json;

use super::{Mesh, Site};

/// Starts a proxy with each of the faults, side by side, and then fixes it. Each fault needs a new process, because its
/// start is the subject.
pub async fn cold_start(site: &Site, overlay: &Overlay) -> Result<String> {
    let start = |fault: Fault| Mesh::start_with_faults(site, overlay, [fault]);
    let [module, configuration, address] = faults(site, overlay)?;
    let (proven, ..) = tokio::try_join!(start(module), start(configuration), start(address))?;
    Ok(proven)
}

/// Delivers one fault after the other to a working proxy.
pub async fn later(mesh: &Mesh<'_>, overlay: &Overlay) -> Result<String> {
    mesh.deliver_faults(overlay, faults(mesh.site, overlay)?).await
}

/// Returns a file that is not a Wasm module, a configuration that the filter rejects, and a module that cannot be
/// fetched: Istio's agent then delivers a filter that denies every request.
fn faults(site: &Site, overlay: &Overlay) -> Result<[Fault; 3]> {
    let path = site.folder("broken.wasm");
    fs::write(&path, "not wasm")?;
    // No server listens on this port.
    let nowhere = "http://127.0.0.1:1/bulk_reshuffle.wasm";
    let code = json!({"remote": {
        "http_uri": {"uri": nowhere, "timeout": "1s", "cluster": "unused"},
        "sha256": "0".repeat(64),
    }});
    let address = Mesh::overlay(site, overlay.name, |folder| {
        folder.set([("/module/code", code), ("/module/image/url", json!(nowhere))])
    })?;
    Ok([
        Fault::new("module", Mesh::overlay(site, overlay.name, |folder| folder.set_module(&path))?),
        Mesh::wrong_configuration(site, overlay)?,
        Fault::new("address", address),
    ])
}
