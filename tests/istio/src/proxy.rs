use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::{Envoy, EnvoyOptions, FilterConfig, Tools, wait};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::discovery::Discovery;
use crate::pod::Pod;

const LIMIT: Duration = Duration::from_secs(60);

/// The role of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A standalone proxy in front of services.
    Gateway,
    /// A proxy beside an application.
    Sidecar,
}

/// An Envoy in a pod that gets its whole configuration from istiod.
#[derive(Debug)]
pub struct Proxy {
    /// The running Envoy.
    pub envoy: Envoy,
    listener: SocketAddr,
}

impl Proxy {
    /// Starts Envoy with two workers and returns when it has its whole configuration. It may not listen yet: see
    /// [`Proxy::wait_listening`].
    pub async fn start(
        tools: &Tools,
        run_dir: &Path,
        kind: Kind,
        pod: &Pod,
        port: u16,
        discovery: &Discovery,
    ) -> Result<Self> {
        let mut options = EnvoyOptions::new(run_dir);
        options.name = pod.name.clone();
        options.filter = FilterConfig::Removed;
        options.concurrency = 2;
        let (node, xds) = (node(kind, pod), discovery.address());
        // Only the administration interface of the shipped configuration remains.
        let options = options.edit(move |config| {
            let admin = config.get("admin").context("the configuration has no administration interface")?.clone();
            *config = bootstrap(&node, &admin, xds);
            Ok(())
        });
        Ok(Self { envoy: Envoy::start(tools, options).await?, listener: SocketAddr::from((pod.address, port)) })
    }

    /// Returns the URL of a path (`/…`) at the listener.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listener)
    }

    /// Returns the address of the listener for clients.
    pub fn listener(&self) -> SocketAddr {
        self.listener
    }

    /// Waits until Envoy accepts connections from clients.
    pub async fn wait_listening(&self) -> Result<()> {
        wait::until(LIMIT, "the proxy listens", async || Ok(TcpStream::connect(self.listener).await.ok()))
            .await
            .map(|_| ())
            .with_context(|| self.envoy.process().log_extract())
    }
}

/// Returns the node object by which istiod selects the proxy's configuration.
fn node(kind: Kind, pod: &Pod) -> Value {
    let Pod { name, namespace, labels, address, .. } = pod;
    let kind = match kind {
        Kind::Gateway => "router",
        Kind::Sidecar => "sidecar",
    };
    json!({
        "id": format!("{kind}~{address}~{name}.{namespace}~{namespace}.svc.cluster.local"),
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
fn bootstrap(node: &Value, admin: &Value, xds: SocketAddr) -> Value {
    const HTTP_2: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    let by_ads = json!({"ads": {}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"});
    let xds = json!({"socket_address": {"address": xds.ip().to_string(), "port_value": xds.port()}});
    json!({
        "node": node,
        "admin": admin,
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
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": xds}}]}],
            },
        }]},
    })
}
