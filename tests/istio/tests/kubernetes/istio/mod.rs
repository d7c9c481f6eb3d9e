//! Tests of the manifests with traffic: the real API server and istiod validate them, istiod delivers them, and Istio's
//! own agent fetches the filter for a real Envoy in front of a real three-node cluster.

mod admission;
mod failures;
mod gateway_api;
mod mutual_tls;
mod pages;

use std::path::Path;

use anyhow::{Result, ensure};
use bulk_reshuffle_istio::{
    ISTIO_NAMESPACE, Istiod, Kubernetes, NAMESPACE, Network, OVERLAYS, Overlay, Report, Traffic,
};
use bulk_reshuffle_stack::{Tools, enter_private_network};

/// Nodes and Kubernetes with Istio.
type Site = bulk_reshuffle_istio::Site<Kubernetes<Istiod>>;

/// A mesh in Kubernetes.
type Mesh<'a> = bulk_reshuffle_istio::Mesh<'a, &'a Kubernetes<Istiod>>;

#[test]
fn manifests_that_kubectl_applies_handle_traffic() -> Result<()> {
    enter_private_network()?;
    tokio::runtime::Runtime::new()?.block_on(everything())
}

/// Runs the tests one after the other, because each of them needs all processors.
async fn everything() -> Result<()> {
    let mut report = Report::wanted();
    let site = Site::start(Network::find()?, control_plane).await?;
    println!("the cluster, Kubernetes and istiod started in {}", report.elapsed());
    admission::check(&site, &mut report).await;
    site.deploy().await?;
    for name in OVERLAYS {
        let overlay = Mesh::shipped(&site, name)?;
        let delivery = if name.ends_with("envoyfilter") { "by HTTP" } else { "from a registry" };
        report.add(name, delivery, split(&site, &overlay)).await;
    }
    for name in ["gateway-envoyfilter", "gateway-wasmplugin"] {
        let overlay = Mesh::shipped(&site, name)?;
        report
            .add(name, "another digest or a wrong configuration, at the start", failures::cold_start(&site, &overlay))
            .await;
        report.add(name, "another digest, no server, a wrong configuration", failures::later(&site, &overlay)).await;
        report.add(name, "changed under load", change(&site, &overlay)).await;
        let title = format!("{name} with components/gateway-api");
        report.add(&title, "to a gateway of the Gateway API", gateway_api::split(&site, name)).await;
    }
    for name in ["gateway-envoyfilter", "sidecar-wasmplugin"] {
        let by_itself = mutual_tls::split(&site, name, None);
        report.add(name, "to nodes with sidecars", by_itself).await;
        let insisting = mutual_tls::split(&site, name, Some("mtls"));
        report.add(&format!("{name} with components/mtls"), "to nodes with sidecars", insisting).await;
    }
    for (title, of_gateway_api) in
        [("gateway-envoyfilter", false), ("gateway-envoyfilter with components/gateway-api", true)]
    {
        let encrypted = mutual_tls::to_gateway(&site, "gateway-envoyfilter", of_gateway_api);
        report.add(title, "from clients with sidecars", encrypted).await;
    }
    println!("\n{report}");
    report.result()
}

/// Starts the API server with the manifests' kinds of resources, and istiod. The nodes are not in Kubernetes yet: see
/// [`Site::deploy`](bulk_reshuffle_istio::Site::deploy).
async fn control_plane(tools: &Tools, run_dir: &Path) -> Result<Kubernetes<Istiod>> {
    let schemas = ["istio-files", "gateway-schemas", "envoy-gateway-schemas", "eck-schemas"];
    Kubernetes::start(tools, run_dir, &schemas, async |api| {
        pages::make_namespace(api).await?;
        let (operators, account) = mutual_tls::OPERATOR;
        for namespace in [ISTIO_NAMESPACE, NAMESPACE, operators] {
            api.add_namespace(namespace).await?;
        }
        api.kubectl(&["create", "serviceaccount", account, "--namespace", operators]).await?;
        Istiod::start(tools, &run_dir.join("istiod"), api).await
    })
    .await
}

/// Checks that requests are split and merged, and that Prometheus gets the filter's metrics.
async fn split(site: &Site, overlay: &Overlay) -> Result<String> {
    let mesh = Mesh::start_splitting(site, overlay.name, overlay).await?;
    let proven = mesh.check_split(overlay.name).await?;
    check_metrics(&mesh).await?;
    let configuration = mesh.proxy.admin_text("/config_dump").await?;
    ensure!(configuration.contains("apply_default_config"), "the patch has not replaced the WasmPlugin's filter");
    mesh.end().await?;
    Ok(proven)
}

/// Changes the filter's configuration while clients write.
async fn change(site: &Site, overlay: &Overlay) -> Result<String> {
    let mesh = Mesh::start(site, &format!("{}-update", overlay.name), overlay).await?;
    let proven = mesh.change_under_load(overlay).await?;
    mesh.end().await?;
    Ok(proven)
}

/// Checks that Prometheus gets the filter's counters, with the names in the README.
async fn check_metrics(mesh: &Mesh<'_>) -> Result<()> {
    let metrics = mesh.proxy.metrics().await?;
    for node in 0..3 {
        let name = format!("bulk_reshuffle_batches_total_upstream_es_{node}");
        let told: Vec<&str> = metrics.lines().filter(|line| line.starts_with("bulk_reshuffle")).collect();
        ensure!(told.iter().any(|line| line.starts_with(&name)), "no {name} in:\n{}", told.join("\n"));
    }
    Ok(())
}
