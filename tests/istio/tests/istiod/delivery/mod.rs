//! Tests with traffic: istiod delivers the manifests to a real Envoy in front of a real three-node cluster.

mod clusters;
mod elasticity;
mod ends;
mod failures;
mod mistakes;
mod pods;
mod policy;
mod shared;
mod tls;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_istio::{Discovery, Network, OVERLAYS, Overlay, Report, Site, Traffic};
use bulk_reshuffle_stack::enter_private_network;
use serde_json::{Value, json};

use shared::Shared;

/// A mesh whose istiod reads files.
type Mesh<'a> = bulk_reshuffle_istio::Mesh<'a, Discovery>;

/// Overlays of both kinds of proxy and of two ways to deliver the filter.
const DIFFERENT: [&str; 2] = ["gateway-envoyfilter", "sidecar-wasmplugin"];

/// Runs four tests side by side, because most of them wait half of the time: one that shares a mesh, two that need their
/// own, and one that also needs a cluster of its own.
#[tokio::test(flavor = "multi_thread")]
async fn manifests_that_istiod_delivers_handle_traffic() -> Result<()> {
    // As nothing redirects traffic, sidecars listen on 127.0.0.1 for all other Services, at ports that others use.
    enter_private_network()?;
    let report = Report::wanted();
    let site = Site::start(Network::find()?, async |_, _| Ok(())).await?;
    println!("the cluster started in {}", report.elapsed());
    tokio::try_join!(
        with_shared_meshes(&site, &report),
        starts(&site, &report),
        ends(&site, &report),
        elasticity(&site, &report),
    )?;
    println!("\n{report}");
    report.result()
}

async fn with_shared_meshes(site: &Site, report: &Report) -> Result<()> {
    for name in OVERLAYS {
        let overlay = &Mesh::shipped(site, name)?;
        let mut shared = Shared::new(site, report, overlay);
        shared.add("as shipped", split).await;
        shared.add("a policy denies a bulk path", policy::denied).await;
        shared.add("changed under load", async |mesh, overlay| mesh.change_under_load(overlay).await).await;
        if DIFFERENT.contains(&name) {
            shared.add("a client with TLS", async |mesh, _| mistakes::tls(mesh).await).await;
            shared.add("a pod is not ready", pods::not_ready).await;
            shared.add("addresses that no pod has", mistakes::other_addresses).await;
        }
        shared.end("no module, a broken one, a wrong configuration", failures::later).await;
    }
    Ok(())
}

/// An upstream for each pod.
async fn named_upstreams(site: &Site, report: &Report) -> Result<()> {
    for name in DIFFERENT {
        let overlay = &Mesh::overlay(site, name, |folder| folder.name_upstreams(name))?;
        let mut shared = Shared::new(site, report, overlay);
        shared.add("as shipped", split).await;
        shared.add("a pod gets another address", pods::moved).await;
        shared.add("a pod is not ready", pods::not_ready).await;
        shared.add("another StatefulSet's name", mistakes::other_names).await;
    }
    Ok(())
}

async fn starts(site: &Site, report: &Report) -> Result<()> {
    for name in OVERLAYS {
        let overlay = &Mesh::shipped(site, name)?;
        let faults = "no module, a broken one, a wrong configuration, at the start";
        report.add(name, faults, failures::cold_start(site, overlay)).await;
    }
    let title = "gateway-envoyfilter with components/tls and state-credentials";
    report.add(title, "to nodes with TLS", tls::split(site)).await;
    Ok(())
}

async fn ends(site: &Site, report: &Report) -> Result<()> {
    named_upstreams(site, report).await?;
    for name in OVERLAYS {
        let overlay = &Mesh::shipped(site, name)?;
        report.add(name, "the VMs die", ends::vm(site, overlay)).await;
        if DIFFERENT.contains(&name) {
            report.add(name, "istiod is away", ends::istiod(site, overlay)).await;
        }
    }
    Ok(())
}

/// Runs what needs a second cluster.
async fn elasticity(site: &Site, report: &Report) -> Result<()> {
    let name = "gateway-envoyfilter";
    let overlay = &Mesh::shipped(site, name)?;
    report.add(name, "nodes come, go and move", elasticity::changes(site, overlay)).await;
    let second = "gateway-wasmplugin";
    report.add(&format!("{name} and {second}"), "of two clusters", clusters::apart(site, name, second)).await;
    Ok(())
}

/// Checks that requests are split and merged.
async fn split(mesh: &Mesh<'_>, _: &Overlay) -> Result<String> {
    let index = &mesh.name();
    mesh.site.nodes.make_index(index).await?;
    mesh.wait_splitting(index).await?;
    check_connections(mesh).await?;
    mesh.check_split(index).await
}

/// Checks that the proxy gives up connections to pods that acknowledge nothing.
async fn check_connections(mesh: &Mesh<'_>) -> Result<()> {
    const CLUSTERS: &str = "/config_dump?resource=dynamic_active_clusters";
    let dump: Value = serde_json::from_str(&mesh.proxy.admin_text(CLUSTERS).await?)?;
    let dump = dump["configs"].as_array().context("no clusters")?.iter().map(|one| &one["cluster"]);
    let nodes: Vec<&Value> = dump.filter(|one| one["name"].to_string().contains(".es.internal")).collect();
    ensure!(nodes.len() == if mesh.is_named() { 4 } else { 1 }, "{nodes:?}");
    for node in nodes {
        let probes = &node["upstream_connection_options"]["tcp_keepalive"];
        ensure!(*probes == json!({"keepalive_time": 10, "keepalive_interval": 5, "keepalive_probes": 3}), "{node}");
        let options = &node["upstream_bind_config"]["socket_options"];
        // TCP_USER_TIMEOUT, which Envoy prints as text.
        ensure!(options[0]["name"] == "18" && options[0]["int_value"] == "20000", "{node}");
    }
    Ok(())
}
