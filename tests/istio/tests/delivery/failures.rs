//! What Envoy cannot use.

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use bulk_reshuffle_istio::Kind;
use serde_json::json;

use crate::mesh::Mesh;
use crate::site::Site;

/// A file that is no module.
fn broken(site: &Site) -> Result<PathBuf> {
    let path = site.folder("broken.wasm");
    fs::write(&path, "no wasm")?;
    Ok(path)
}

/// The proxy starts with a module that it cannot load: it listens, and requests pass without the filter. Then it gets
/// the real one.
pub async fn cold_start(site: &Site, overlay: &str) -> Result<String> {
    let (name, manifests) = (&format!("{overlay}-cold"), &site.overlay(overlay)?);
    let [plain, split] = indices(site, name).await?;
    let mesh = Mesh::start_with(site, name, Kind::Gateway, manifests, &broken(site)?).await?;
    mesh.wait_delivered((0, 0)).await?;
    mesh.check_pass(&plain).await?;
    let before = mesh.deliveries().await?;
    mesh.apply_with(manifests, site.tools.wasm()?).await?;
    mesh.wait_taken(before).await?;
    mesh.wait_splitting(&split).await?;
    mesh.check_split(&split).await?;
    mesh.end_refused().await?;
    Ok("requests pass without the filter, and are split once it is there".to_owned())
}

/// A proxy that works gets a broken module, then a bad configuration, and keeps what it has; then what it had before.
pub async fn later(site: &Site, overlay: &str) -> Result<String> {
    let (name, manifests) = (&format!("{overlay}-later"), &site.overlay(overlay)?);
    let [module, configuration] = indices(site, name).await?;
    site.make_index(name).await?;
    let mesh = Mesh::start(site, name, Kind::Gateway, manifests).await?;
    mesh.wait_splitting(&module).await?;
    let before = mesh.deliveries().await?;
    mesh.apply_with(manifests, &broken(site)?).await?;
    mesh.wait_delivered(before).await?;
    mesh.check_split(&module).await?;
    let (mut bad, before) = (manifests.clone(), mesh.deliveries().await?);
    bad.configure(&json!({"hold": {"interval": 50}}))?;
    mesh.apply(&bad).await?;
    mesh.wait_delivered(before).await?;
    mesh.check_split(&configuration).await?;
    let (taken, refused) = mesh.deliveries().await?;
    ensure!(refused == 2, "{taken} taken, {refused} refused");
    mesh.apply(manifests).await?;
    mesh.wait_taken((taken, refused)).await?;
    mesh.wait_splitting(name).await?;
    mesh.check_split(name).await?;
    mesh.end_refused().await?;
    Ok("both are refused and requests are split as before; also after the roll-back".to_owned())
}

/// Two for the proxy to know from the start.
async fn indices(site: &Site, name: &str) -> Result<[String; 2]> {
    let names = [format!("{name}-1"), format!("{name}-2")];
    for name in &names {
        site.make_index(name).await?;
    }
    Ok(names)
}
