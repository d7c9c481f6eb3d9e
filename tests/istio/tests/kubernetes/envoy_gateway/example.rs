//! `examples/envoy-gateway`, as a user applies it.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_istio::{EnvoyGateway, Kubernetes, LIMIT, Manifests, NAMESPACE, Nodes};
use bulk_reshuffle_stack::{Tools, wait};
use serde_json::json;

use super::Site;

/// The gateway's port. In a cluster the gateway has the same port as the nodes, but here it has no separate address.
pub const GATEWAY_PORT: u16 = 9300;

/// Starts the API server with the example's kinds of resources, and Envoy Gateway.
pub async fn control_plane(tools: &Tools, run_dir: &Path) -> Result<Kubernetes<EnvoyGateway>> {
    Kubernetes::start(tools, run_dir, &["gateway-schemas", "envoy-gateway-schemas"], async |api| {
        api.add_namespace(NAMESPACE).await?;
        EnvoyGateway::start(tools, &run_dir.join("envoy-gateway"), api).await
    })
    .await
}

/// Applies the example with the module's location, as a user sets it, and the objects that controllers create for the
/// nodes.
pub async fn apply(site: &Site) -> Result<()> {
    let api = &site.servers.api;
    let nodes = Manifests::read(&site.text("examples/kubernetes/opensearch.yaml")?)?;
    let service = nodes.all("Service").next().context("no Service")?;
    let input = service.to_string();
    api.kubectl_with(&["apply", "--namespace", NAMESPACE, "--filename=-"], &input).await?;
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": {"name": "envoy-gateway"},
        "spec": {"controllerName": "gateway.envoyproxy.io/gatewayclass-controller"},
    });
    let endpoints: Vec<_> = site.set.pods.iter().map(|pod| json!({"addresses": [pod.address]})).collect();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "es", "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": "es"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": Nodes::PORT, "protocol": "TCP"}],
        "endpoints": endpoints,
    });
    let listener = format!("port: {GATEWAY_PORT}}}\n---");
    let gateway = replace(&site.text("examples/envoy-gateway/gateway.yaml")?, "port: 9200}\n---", &listener)?;
    api.apply(&Manifests::read(&gateway)?.with([class, slice])).await?;
    api.apply(&Manifests::read(&filter(site)?)?).await
}

/// Returns the example's policies with the location of the module.
fn filter(site: &Site) -> Result<String> {
    let module = &site.servers.module;
    let image = module.image.trim_start_matches("oci://");
    let digest = format!("sha256: {}", module.digest);
    let filter = site.text("examples/envoy-gateway/bulk-reshuffle.yaml")?;
    let tag = concat!("bulk-reshuffle:", env!("CARGO_PKG_VERSION"));
    replace(&replace(&filter, tag, image)?, "# sha256: …", &digest)
}

/// Switches the filter off, as the page says.
pub async fn switch_off(site: &Site) -> Result<()> {
    let filter = replace(&filter(site)?, "      config:\n", "      config:\n        enabled: false\n")?;
    site.servers.api.apply(&Manifests::read(&filter)?).await
}

/// Applies a policy that denies bulk requests to the path of an index, for any order of the example's filters.
pub async fn deny(site: &Site, index: &str) -> Result<()> {
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
    site.servers.api.apply(&Manifests::default().with([policy])).await
}

/// Waits until Envoy Gateway reports that the patches are programmed.
pub async fn wait_programmed(site: &Site) -> Result<()> {
    const CONDITION: &str = "{.status.ancestors[*].conditions[?(@.type==\"Programmed\")]}";
    let output = format!("--output=jsonpath={CONDITION}");
    let get = ["get", "envoypatchpolicy", "bulk-reshuffle", "--namespace", NAMESPACE, &output];
    let programmed = wait::until(LIMIT, "the patches are programmed", async || {
        Ok(site.servers.api.kubectl(&get).await?.contains("\"status\":\"True\"").then_some(()))
    });
    match programmed.await {
        Ok(()) => Ok(()),
        Err(error) => Err(error.context(site.servers.api.kubectl(&get).await?)),
    }
}

/// Replaces a text; returns an error if the example does not contain it.
fn replace(text: &str, from: &str, to: &str) -> Result<String> {
    ensure!(text.contains(from), "no `{from}` in:\n{text}");
    Ok(text.replace(from, to))
}
