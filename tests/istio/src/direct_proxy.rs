use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use bulk_reshuffle_stack::{Tools, port};
use serde_json::{Value, json};

use crate::nodes::Nodes;
use crate::pod::Pod;
use crate::process::{make_folder, start, wait_answer};
use crate::proxy::{Kind, Proxy};

const FAULTS: &[&str] = &["[critical]", "[error]", "panicked", "Function: proxy_", "Uncaught"];

/// Starts an Envoy with two workers in a pod, which gets its whole configuration from istiod, without Istio's agent.
/// Returns when it has the configuration and listens.
pub(crate) async fn start_direct(
    tools: &Tools,
    run_dir: &Path,
    kind: Kind,
    pod: &Pod,
    xds: SocketAddr,
) -> Result<Proxy> {
    let admin = port::loopback(port::free()?);
    let file = make_folder(run_dir)?.join("envoy.json");
    fs::write(&file, bootstrap(&node(kind, pod), admin, xds).to_string())?;
    let mut command = Command::new(&tools.envoy);
    command.arg("--disable-hot-restart").arg("--config-path").arg(file);
    command.args(["--concurrency", "2", "--log-level", "info", "--drain-time-s", "2"]);
    let process = start(&pod.name, command, run_dir)?;
    wait_answer(&process, "Envoy has its configuration", &format!("http://{admin}/ready")).await?;
    Proxy::listening(process, [(pod.address, Nodes::PORT).into(), admin, admin], FAULTS).await
}

/// Returns the node object by which istiod selects the proxy's configuration.
fn node(kind: Kind, pod: &Pod) -> Value {
    let Pod { name, namespace, labels, address, .. } = pod;
    let role = kind.role();
    json!({
        "id": format!("{role}~{address}~{name}.{namespace}~{namespace}.svc.cluster.local"),
        "cluster": name,
        "metadata": {
            "NAME": name,
            "NAMESPACE": namespace,
            "LABELS": labels,
            "CLUSTER_ID": "Kubernetes",
            "INSTANCE_IPS": address.to_string(),
            "INTERCEPTION_MODE": "NONE",
            "ISTIO_VERSION": "1.31.0",
            "SERVICE_ACCOUNT": "default",
            "WORKLOAD_NAME": name,
        },
    })
}

/// Returns the bootstrap configuration, which has only istiod's address.
fn bootstrap(node: &Value, admin: SocketAddr, xds: SocketAddr) -> Value {
    const HTTP_2: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    let by_ads = json!({"ads": {}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"});
    let at = |address: SocketAddr| {
        let (ip, port) = (address.ip().to_string(), address.port());
        json!({"socket_address": {"address": ip, "port_value": port}})
    };
    json!({
        "node": node,
        "admin": {"address": at(admin)},
        "dynamic_resources": {
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [{"envoy_grpc": {"cluster_name": "xds-grpc"}}],
            },
            "lds_config": by_ads,
            "cds_config": by_ads,
        },
        "static_resources": {"clusters": [{
            "name": "xds-grpc",
            "type": "STATIC",
            "connect_timeout": "1s",
            "typed_extension_protocol_options": {HTTP_2: {
                "@type": format!("type.googleapis.com/{HTTP_2}"),
                "explicit_http_config": {"http2_protocol_options": {}},
            }},
            "load_assignment": {
                "cluster_name": "xds-grpc",
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": at(xds)}}]}],
            },
        }]},
    })
}
