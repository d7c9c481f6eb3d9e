//! Mistakes that `istio/README.md` describes, with their symptoms.

use anyhow::{Result, ensure};
use bulk_reshuffle_istio::{LIMIT, Overlay, Traffic};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Mesh;
use super::pods::{put_back, wait_direct, wait_endpoints};

const NODES: [&str; 3] = ["es-0", "es-1", "es-2"];

/// Makes the filter name addresses that no pod has.
pub async fn other_addresses(mesh: &Mesh<'_>, overlay: &Overlay) -> Result<String> {
    let before = mesh.deliveries().await?;
    let mistaken = Mesh::overlay(mesh.site, overlay.name, |folder| {
        folder.configure(&json!({"nodes": {"header": "x-bulk-reshuffle-node", "address": "{ip}:9300"}}))
    })?;
    mesh.apply(&mistaken).await?;
    mesh.wait_taken(before).await?;
    check_redirected(mesh, overlay).await
}

/// Puts another StatefulSet's name into the values, so that the upstreams do not match the nodes.
pub async fn other_names(mesh: &Mesh<'_>, overlay: &Overlay) -> Result<String> {
    let mistaken = Mesh::overlay(mesh.site, overlay.name, |folder| {
        folder.name_upstreams(overlay.name)?;
        folder.set([("/elasticsearch/statefulSet", json!("elastic"))])
    })?;
    mesh.apply(&mistaken).await?;
    for node in NODES {
        wait_endpoints(mesh, &mesh.upstream(node), &[]).await?;
    }
    check_redirected(mesh, overlay).await
}

/// Checks that other nodes answer all requests, and that a counter shows the missing upstreams. Restores the overlay.
async fn check_redirected(mesh: &Mesh<'_>, overlay: &Overlay) -> Result<String> {
    let index = &format!("{}-redirected", mesh.name());
    mesh.site.nodes.make_index(index).await?;
    // The filter tries an upstream once between two polls. It may try the first one before it splits all requests.
    let before = mesh.counted_by("batches_redirected", "upstream").await?;
    mesh.wait_splitting(index).await?;
    mesh.check_sent(index).await?;
    let redirected = mesh.counted_by("batches_redirected", "upstream").await?;
    for upstream in NODES.map(|node| mesh.upstream(node)) {
        ensure!(redirected.get(&upstream) > before.get(&upstream), "redirected {redirected:?} after {before:?}");
    }
    put_back(mesh, overlay).await?;
    wait_direct(mesh, index).await?;
    Ok("every request is answered; `batches_redirected_total` names the missing upstreams".to_owned())
}

/// Speaks TLS to a port where Istio expects HTTP. The client must get an error in plain text.
pub async fn tls(mesh: &Mesh<'_>) -> Result<String> {
    const ERRORS: &str = "downstream_cx_protocol_error";
    let before = mesh.sum(ERRORS).await?;
    let mut connection = TcpStream::connect(mesh.proxy.listener).await?;
    connection.write_all(CLIENT_HELLO).await?;
    let mut answer = Vec::new();
    tokio::time::timeout(LIMIT, connection.read_to_end(&mut answer)).await??;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    ensure!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer:?}");
    ensure!(mesh.sum(ERRORS).await? == before + 1, "{ERRORS} did not grow by one");
    Ok(format!("the TLS handshake fails; `{ERRORS}` counts it"))
}

/// The first bytes of a TLS connection.
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x00\x04\x01\x00\x00\x00";
