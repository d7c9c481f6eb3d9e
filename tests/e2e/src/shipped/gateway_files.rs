use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::ShippedFiles;
use crate::envoy_config::clusters;
use crate::{Authority, Identity};

/// Prepares `envoy/gateway.yaml` for nodes at these addresses. Requests are held for a while, so that they are merged.
pub fn gateway_files(
    folder: &Path,
    servers: &Authority,
    tenants: &Authority,
    nodes: &[SocketAddr],
) -> Result<ShippedFiles> {
    let files = ShippedFiles::new(folder)?
        .replace("/etc/envoy/", write_certificates(folder, servers, tenants)?)
        .replace("address: 0.0.0.0,", "address: 127.0.0.1,")
        .replace(
            "\"coordinator\": \"es\"",
            r#""coordinator": "es", "hold": {"early_release": false, "interval": "500ms"}"#,
        );
    let node = |files: ShippedFiles, (node, address): (usize, &SocketAddr)| {
        let name = format!("es-{node}.internal");
        // TLS still needs the name.
        let (shipped, known) =
            (format!("{name}, port_value: 9200"), format!("127.0.0.1, port_value: {}", address.port()));
        let to = |named: &str, place: &str| {
            format!("endpoint: {{{named}address: {{socket_address: {{address: {place}}}}}}}")
        };
        files.replace(to("", &shipped), to(&format!("hostname: {name}, "), &known))
    };
    Ok(nodes.iter().enumerate().fold(files, node))
}

/// Writes the files that otherwise are in `/etc/envoy`; returns their folder.
fn write_certificates(folder: &Path, servers: &Authority, tenants: &Authority) -> Result<String> {
    let folder = folder.join("certificates");
    std::fs::create_dir_all(&folder)?;
    let Identity { certificate, key } = servers.sign("127.0.0.1")?;
    let files = [
        ("gateway.pem", &certificate),
        ("gateway-key.pem", &key),
        ("cluster-ca.pem", &servers.certificate),
        ("tenants-ca.pem", &tenants.certificate),
    ];
    for (file, text) in files {
        std::fs::write(folder.join(file), text)?;
    }
    Ok(format!("{}/", folder.display()))
}

/// Configures cleartext HTTP/2 to all nodes, as described by a comment in `envoy/gateway.yaml`.
pub fn reach_nodes_by_http2(config: &mut Value) -> Result<()> {
    for cluster in clusters(config) {
        cluster["typed_extension_protocol_options"] = json!({
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            },
        });
    }
    Ok(())
}
