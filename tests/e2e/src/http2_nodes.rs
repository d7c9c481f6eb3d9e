use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Configures cleartext HTTP/2 to all nodes, as described by a comment in `envoy/gateway.yaml`.
pub fn reach_nodes_by_http2(config: &mut Value) -> Result<()> {
    let clusters = config.pointer_mut("/static_resources/clusters").and_then(Value::as_array_mut);
    for cluster in clusters.context("no clusters")? {
        let options = json!({
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            },
        });
        cluster.as_object_mut().context("no cluster")?.insert("typed_extension_protocol_options".into(), options);
    }
    Ok(())
}
