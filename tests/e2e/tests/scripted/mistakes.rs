//! Mistakes in Envoy's configuration, and where an operator finds each: in the status, in a gauge, and in the log.

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{ClusterScript, FakeCluster, Reaction, Scene, SceneOptions};
use bulk_reshuffle_stack::port;
use serde_json::{Value, json};

const ADMIN: &str = "/_bulk_reshuffle";

fn scene() -> SceneOptions {
    let config = json!({"admin_path": ADMIN, "cluster_state": {"refresh": "1s"}});
    Scene::of(ClusterScript::three_nodes()).config(config)
}

/// Lets the upstream of a node lead to this port.
fn misled(
    options: SceneOptions,
    upstream: &'static str,
    port: impl FnOnce(&Value) -> Option<Value> + Send + 'static,
) -> SceneOptions {
    const PORT: &str = "/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/port_value";
    options.edit(move |config| {
        let clusters =
            config.pointer_mut("/static_resources/clusters").and_then(Value::as_array_mut).context("no clusters")?;
        let others = json!(clusters);
        let cluster = clusters.iter_mut().find(|cluster| cluster["name"] == upstream).context("no such cluster")?;
        *cluster.pointer_mut(PORT).context("no port")? = port(&others).context("no other port")?;
        Ok(())
    })
}

/// Returns the port of an upstream.
fn port_of(clusters: &Value, upstream: &str) -> Option<Value> {
    let cluster = clusters.as_array()?.iter().find(|cluster| cluster["name"] == upstream)?;
    cluster.pointer("/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/port_value").cloned()
}

/// Checks what an operator reads about the upstream of es-1, and returns its place in the status.
async fn check_found(scene: &Scene, result: &str, text: &str) -> Result<Value> {
    scene.wait_for_stat("wasmcustom.bulk_reshuffle_upstreams_faulty.upstream.es-1", |fault| fault == 1).await?;
    for other in ["es", "es-0", "es-2"] {
        let gauge = format!("wasmcustom.bulk_reshuffle_upstreams_faulty.upstream.{other}");
        assert_eq!(scene.envoy.counter(&gauge).await?, 0, "{other}");
    }
    let node = scene.wait_for_status(ADMIN, |status| {
        let node = status["nodes"].as_array()?.iter().find(|node| node["name"] == "es-1")?;
        (node["check"]["result"] == result).then(|| node.clone())
    });
    let node = node.await?;
    assert!(node["check"]["text"].as_str().is_some_and(|told| text.contains(told)), "{node}");
    let log = scene.envoy.log();
    assert!(log.contains(&format!("upstream \"es-1\": {text}")), "{log}");
    Ok(node)
}

/// Checks that requests are split and answered, and that nothing is sent to es-1's node but by the coordinator.
async fn check_avoided(scene: &Scene) -> Result<()> {
    scene.cluster.forget();
    scene.cluster.check_books(0, &scene.bulk("/_bulk", scene.cluster.write_books(0)).await?)?;
    assert_eq!(scene.counted("operations_unrouted_total.reason.wrong_upstream").await?, 1);
    assert_eq!(scene.counted("batch_operations_total.upstream.es").await?, 1);
    assert_eq!(scene.counted("batches_total.upstream.es-1").await?, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_with_the_port_of_another_node_is_found_and_avoided() -> Result<()> {
    let scene = misled(scene(), "es-1", |clusters| port_of(clusters, "es-2")).start().await?;
    let text = "The upstream leads to another node of the cluster. \"es-2\" answers. Operations for its node go to the coordinator.";
    let node = check_found(&scene, "other_node", text).await?;
    assert_eq!((&node["check"]["found"], &node["without_upstream"]), (&json!("es-2"), &json!("wrong_upstream")));
    check_avoided(&scene).await?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_of_another_cluster_is_found_and_avoided() -> Result<()> {
    let other = FakeCluster::start(ClusterScript::new(5)).await?;
    // Its node 4 has an id that the first cluster does not have.
    let port = other.addresses().nth(4).context("no node")?.port();
    let scene = misled(scene(), "es-1", move |_| Some(json!(port))).start().await?;
    let text = "The upstream leads to a node that the cluster does not have. \"es-4\" answers.";
    check_found(&scene, "other_cluster", text).await?;
    check_avoided(&scene).await?;
    assert_eq!(other.bulks().len(), 0);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_envoy_does_not_have_is_found() -> Result<()> {
    let scene = scene().without_upstream(1).start().await?;
    check_found(
        &scene,
        "no_upstream",
        "Envoy has no cluster of this name or, with `nodes.header`, no host with this address.",
    )
    .await?;
    scene.cluster.check_books(0, &scene.bulk("/_bulk", scene.cluster.write_books(0)).await?)?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_refuses_connections_is_found() -> Result<()> {
    let closed = port::free()?;
    let scene = misled(scene(), "es-1", move |_| Some(json!(closed))).start().await?;
    check_found(&scene, "unreachable", "Envoy cannot connect to a healthy host of the upstream.").await?;
    scene.cluster.check_books(0, &scene.bulk("/_bulk", scene.cluster.write_books(0)).await?)?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_does_not_let_the_filter_ask_is_found() -> Result<()> {
    let refuses = |cluster: &FakeCluster| {
        cluster.react_to_state_queries(|request| {
            let is_refused = request.node == 1 && request.path() == "/_nodes/_local";
            is_refused.then(|| Reaction::refusal(403, "security_exception", "no"))
        });
    };
    let scene = scene().start_with(refuses).await?;
    check_found(&scene, "forbidden", "The upstream does not let the filter ask. Check `credentials`.").await?;
    scene.cluster.check_books(0, &scene.bulk("/_bulk", scene.cluster.write_books(0)).await?)?;
    assert_eq!(scene.counted("batches_total.upstream.es-1").await?, 1);
    scene.finish().await
}

/// Envoy chooses one of the coordinator's hosts for each poll.
#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_with_a_host_of_another_cluster_is_found() -> Result<()> {
    const HOSTS: &str = "/load_assignment/endpoints/0/lb_endpoints";
    let other = FakeCluster::start(ClusterScript::new(1).uuid("another")).await?;
    let address = other.addresses().next().context("no node")?;
    let options = scene().coordinators([0]).edit(move |config| {
        let clusters = config.pointer_mut("/static_resources/clusters").and_then(Value::as_array_mut);
        let coordinator = clusters.and_then(|clusters| clusters.iter_mut().find(|cluster| cluster["name"] == "es"));
        let hosts = coordinator.and_then(|cluster| cluster.pointer_mut(HOSTS)?.as_array_mut()).context("no hosts")?;
        let socket_address = json!({"address": address.ip().to_string(), "port_value": address.port()});
        hosts.push(json!({"endpoint": {"address": {"socket_address": socket_address}}}));
        Ok(())
    });
    let scene = options.start_cold().await?;
    scene.wait_for_stat("wasmcustom.bulk_reshuffle_upstreams_faulty.upstream.es", |fault| fault == 1).await?;
    let check = scene.wait_for_status(ADMIN, |status| {
        let check = &status["coordinator"]["check"];
        (check["result"] == "several_clusters").then(|| check.clone())
    });
    let text = check.await?["text"].as_str().context("no text")?.to_owned();
    let log = scene.envoy.log();
    assert!(log.contains(&format!("upstream \"es\": {text}")), "{log}");
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_envoy_does_not_have_is_found() -> Result<()> {
    let scene = scene().config(json!({"coordinator": "typo", "route_clusters": ["es"]})).start_cold().await?;
    scene.wait_for_stat("wasmcustom.bulk_reshuffle_upstreams_faulty.upstream.typo", |fault| fault == 1).await?;
    let problem = "version: Envoy has no cluster of this name";
    let status =
        scene.wait_for_status(ADMIN, |status| (status["state_problem"] == problem).then(|| status.clone())).await?;
    assert_eq!((&status["state"], &status["coordinator"]["check"]["result"]), (&Value::Null, &json!("no_upstream")));
    let log = scene.envoy.log();
    assert!(log.contains(&format!("cluster state: {problem} (`coordinator` is \"typo\")")), "{log}");
    scene.bulk("/_bulk", scene.cluster.write_books(0)).await?.ok()?;
    assert_eq!(scene.passed_through().await?, [("no_state".to_owned(), 1)].into());
    scene.finish().await
}
