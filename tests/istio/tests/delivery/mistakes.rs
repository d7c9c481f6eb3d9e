//! Mistakes that `istio/README.md` describes, with their symptoms.

use anyhow::{Result, ensure};
use bulk_reshuffle_istio::{LIMIT, Overlay, Proxy, Traffic};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{Mesh, Site};

/// Puts another StatefulSet's name into the values, so that the upstreams do not match the nodes. All batches must go
/// to the `any` upstream, and a counter must show the missing upstreams.
pub async fn other_names(site: &Site, overlay: &'static str) -> Result<String> {
    let name = &format!("{overlay}-other-names");
    let mistaken = Mesh::overlay(site, overlay, |folder| {
        let mut values = folder.values()?;
        values["elasticsearch"]["statefulSet"] = json!("elastic");
        folder.set_values(&values)
    })?;
    let mesh = Mesh::start_splitting(site, name, &mistaken).await?;
    mesh.check_sent(name).await?;
    let redirected = mesh.counted_by("batches_redirected", "upstream").await?;
    for node in ["es-0", "es-1", "es-2"] {
        ensure!(redirected.get(&Mesh::upstream(node)).is_some_and(|count| *count > 0), "redirected {redirected:?}");
    }
    mesh.end().await?;
    Ok("every request is answered; `batches_redirected_total` names the missing upstreams".to_owned())
}

/// Speaks TLS to a port where Istio expects HTTP. The client must get an error in plain text.
pub async fn tls(site: &Site, overlay: &Overlay) -> Result<String> {
    const ERRORS: &str = "downstream_cx_protocol_error";
    let name = &format!("{}-client-with-tls", overlay.name);
    let mesh = Mesh::start_splitting(site, name, overlay).await?;
    let before = mesh.sum(ERRORS).await?;
    let mut connection = TcpStream::connect(mesh.proxy.listener()).await?;
    connection.write_all(CLIENT_HELLO).await?;
    let mut answer = Vec::new();
    tokio::time::timeout(LIMIT, connection.read_to_end(&mut answer)).await??;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    ensure!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer:?}");
    ensure!(mesh.sum(ERRORS).await? == before + 1, "{ERRORS} did not grow by one");
    mesh.end().await?;
    Ok(format!("the TLS handshake fails; `{ERRORS}` counts it"))
}

/// The first bytes of a TLS connection.
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x00\x04\x01\x00\x00\x00";
