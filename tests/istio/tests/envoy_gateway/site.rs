use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_istio::{ApiServer, EnvoyGateway, Manifests, Module, Nodes, yaml_in};
use bulk_reshuffle_stack::{Tools, wait};
use serde_json::json;
use tempfile::TempDir;

/// A generous time limit, even on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The namespace of all objects.
const NAMESPACE: &str = "search";

/// The gateway's port. In a cluster the gateway has the same port as the nodes, but here it has no separate address.
pub const GATEWAY_PORT: u16 = 9300;

/// The nodes' addresses. The API server rejects endpoints on loopback.
const HOSTS: [Ipv4Addr; 3] = [Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2), Ipv4Addr::new(10, 77, 0, 3)];

/// Kubernetes and Envoy Gateway, and three real nodes at the addresses of a StatefulSet's pods.
pub struct Site {
    pub tools: Tools,
    pub api: ApiServer,
    pub gateway: EnvoyGateway,
    pub nodes: Nodes,
    module: Module,
    _run_dir: TempDir,
}

impl Site {
    /// Starts everything.
    pub async fn start() -> Result<Self> {
        let (tools, run_dir) = (Tools::find()?, tempfile::tempdir()?);
        let added = Command::new("ip").args(["address", "add", "10.77.0.0/24", "dev", "lo"]).output()?;
        ensure!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        let module = Module::publish(&tools, &run_dir.path().join("module")).await?;
        let nodes = Nodes::start(&tools, run_dir.path().join("nodes"), HOSTS.to_vec());
        let (nodes, (api, gateway)) = tokio::try_join!(nodes, control_plane(&tools, run_dir.path()))?;
        Ok(Self { tools, api, gateway, nodes, module, _run_dir: run_dir })
    }

    /// Returns the pods' names in DNS, as their headless Service publishes them.
    pub fn names(&self) -> Vec<(String, Ipv4Addr)> {
        let name = |(index, host): (usize, &Ipv4Addr)| (format!("es-{index}.es.{NAMESPACE}"), *host);
        HOSTS.iter().enumerate().map(name).collect()
    }

    /// Applies the example with the module's location, as a user sets it, and the objects that controllers create for
    /// the nodes.
    pub async fn apply_example(&self) -> Result<()> {
        let file =
            |path: &str| -> Result<String> { Ok(fs::read_to_string(self.tools.root.join("examples").join(path))?) };
        let nodes = Manifests::read(&file("kubernetes/opensearch.yaml")?)?;
        let service = nodes.all("Service").next().context("no Service")?;
        let input = service.to_string();
        self.api.kubectl_with(&["apply", "--namespace", NAMESPACE, "--filename=-"], &input).await?;
        let class = json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "GatewayClass",
            "metadata": {"name": "envoy-gateway"},
            "spec": {"controllerName": "gateway.envoyproxy.io/gatewayclass-controller"},
        });
        let endpoints: Vec<_> = HOSTS.iter().map(|host| json!({"addresses": [host]})).collect();
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "es", "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": "es"}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": Nodes::PORT, "protocol": "TCP"}],
            "endpoints": endpoints,
        });
        let image = self.module.image.trim_start_matches("oci://");
        let digest = format!("sha256: {}", self.module.digest);
        let filter = file("envoy-gateway/bulk-reshuffle.yaml")?;
        let filter = replace(&replace(&filter, "bulk-reshuffle:0.1.0", image)?, "# sha256: …", &digest)?;
        let listener = format!("port: {GATEWAY_PORT}}}\n---");
        let gateway = replace(&file("envoy-gateway/gateway.yaml")?, "port: 9200}\n---", &listener)?;
        self.api.apply(&Manifests::read(&gateway)?.with([class, slice])).await?;
        self.api.apply(&Manifests::read(&filter)?).await
    }

    /// Applies a policy that denies bulk requests to the path of an index, for any order of the example's filters.
    pub async fn deny(&self, index: &str) -> Result<()> {
        let path = json!({"type": "PathPrefix", "value": format!("/{index}/_bulk")});
        let everyone = json!({"clientCIDRs": ["0.0.0.0/0"]});
        let policy = json!({
            "apiVersion": "gateway.envoyproxy.io/v1alpha1",
            "kind": "SecurityPolicy",
            "metadata": {"name": "elasticsearch", "namespace": NAMESPACE},
            "spec": {
                "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "elasticsearch"}],
                "authorization": {
                    "defaultAction": "Allow",
                    "rules": [{"action": "Deny", "principal": everyone, "operation": {"methods": ["POST", "PUT"], "path": path}}],
                },
            },
        });
        self.api.apply(&Manifests::default().with([policy])).await
    }

    /// Waits until Envoy Gateway reports that the patches are programmed.
    pub async fn wait_programmed(&self) -> Result<()> {
        const CONDITION: &str = "{.status.ancestors[*].conditions[?(@.type==\"Programmed\")]}";
        let output = format!("--output=jsonpath={CONDITION}");
        let get = ["get", "envoypatchpolicy", "bulk-reshuffle", "--namespace", NAMESPACE, &output];
        let programmed = wait::until(LIMIT, "the patches are programmed", async || {
            Ok(self.api.kubectl(&get).await?.contains("\"status\":\"True\"").then_some(()))
        });
        match programmed.await {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.api.kubectl(&get).await?)),
        }
    }

    /// Stops Envoy Gateway and the API server.
    pub async fn stop(self) -> Result<()> {
        self.gateway.stop().await?;
        self.api.stop().await
    }
}

/// Starts the API server with the example's kinds of resources, and Envoy Gateway.
async fn control_plane(tools: &Tools, run_dir: &Path) -> Result<(ApiServer, EnvoyGateway)> {
    let api = ApiServer::start(tools, &run_dir.join("kubernetes")).await?;
    api.add_namespace(NAMESPACE).await?;
    for schemas in ["gateway-schemas", "envoy-gateway-schemas"] {
        api.define(&yaml_in(&tools.folder(schemas)?)?).await?;
    }
    let gateway = EnvoyGateway::start(tools, &run_dir.join("envoy-gateway"), &api).await?;
    Ok((api, gateway))
}

/// Replaces a text; returns an error if the example does not contain it.
fn replace(text: &str, from: &str, to: &str) -> Result<String> {
    ensure!(text.contains(from), "no `{from}` in:\n{text}");
    Ok(text.replace(from, to))
}
