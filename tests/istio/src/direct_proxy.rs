use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::check_filter;
use bulk_reshuffle_stack::{Envoy, EnvoyOptions, FilterConfig, Process, Tools};
use serde_json::{Value, json};

use crate::discovery::Discovery;
use crate::nodes::Nodes;
use crate::pod::Pod;
use crate::proxy::{Kind, Proxy};

/// An Envoy in a pod that gets its whole configuration from istiod, without Istio's agent.
#[derive(Debug)]
pub struct DirectProxy {
    /// The running Envoy.
    pub envoy: Envoy,
    listener: SocketAddr,
}

impl DirectProxy {
    /// Starts Envoy with two workers and returns when it has its whole configuration. It may not listen yet: see
    /// [`Proxy::wait_listening`].
    pub async fn start(tools: &Tools, run_dir: &Path, kind: Kind, pod: &Pod, discovery: &Discovery) -> Result<Self> {
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
        Ok(Self { envoy: Envoy::start(tools, options).await?, listener: SocketAddr::from((pod.address, Nodes::PORT)) })
    }
}

impl Proxy for DirectProxy {
    fn process(&self) -> &Process {
        self.envoy.process()
    }

    fn listener(&self) -> SocketAddr {
        self.listener
    }

    fn admin(&self) -> SocketAddr {
        self.envoy.admin()
    }

    async fn check_filter(&self) -> Result<()> {
        check_filter(&self.envoy).await
    }

    async fn stop(self) -> Result<()> {
        self.envoy.stop().await
    }
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
