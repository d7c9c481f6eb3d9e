//! Modules that cannot be fetched, in place of which Istio's agent delivers a filter that denies every request, and
//! configurations that the filter rejects.

use anyhow::Result;
use bulk_reshuffle_istio::{Fault, Module, Overlay};

use super::{Mesh, Site};

/// The agent's log line for a wrong digest, which is one of the three mistakes in the README.
const CANNOT_FETCH: &str = "cannot fetch Wasm module";

/// The type of the filter that the agent then delivers.
const DENIES: &str = "envoy.extensions.filters.http.rbac.v3.RBAC";

/// Starts a proxy with another module's digest in its values, and another proxy with a configuration that the filter
/// rejects. The first proxy's log must have both digests: the user can copy the right one into the values.
pub async fn cold_start(site: &Site, overlay: &Overlay) -> Result<String> {
    let (right, wrong) = (&site.servers.module, &site.servers.module.mistaken());
    let digests = [right, wrong].map(|module| match overlay.name.ends_with("envoyfilter") {
        true => module.sha256.clone(),
        false => module.digest.clone(),
    });
    let digest = Fault { log: Some((CANNOT_FETCH, digests.into())), ..of_module(site, overlay, "digest", wrong)? };
    Mesh::start_with_faults(site, overlay, [digest, Mesh::wrong_configuration(site, overlay)?]).await
}

/// Delivers another module's digest, then an address without a server, then an invalid configuration to a working
/// proxy.
pub async fn later(site: &Site, overlay: &Overlay) -> Result<String> {
    let module = &site.servers.module;
    let digest = of_module(site, overlay, "digest", &module.mistaken())?;
    let address = of_module(site, overlay, "address", &module.nowhere()?)?;
    let mesh = Mesh::start(site, &format!("{}-later", overlay.name), overlay).await?;
    mesh.deliver_faults(overlay, [digest, address, Mesh::wrong_configuration(site, overlay)?]).await
}

/// Returns a fault in the module's location.
fn of_module(site: &Site, overlay: &Overlay, name: &'static str, module: &Module) -> Result<Fault> {
    let overlay = Mesh::overlay(site, overlay.name, |folder| module.put_into(folder))?;
    Ok(Fault { log: Some((DENIES, Vec::new())), ..Fault::new(name, overlay) })
}
