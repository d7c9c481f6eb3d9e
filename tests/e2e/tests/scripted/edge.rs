//! Envoy's settings at the edge, as in `examples/kubernetes` and `envoy/gateway.yaml`, and their effect on bulk
//! requests.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_e2e::envoy_config::{clusters, listen_on_loopback, manager};
use bulk_reshuffle_e2e::{
    ClusterScript, Http2Client, Item, RawClient, Recorded, Scene, SceneOptions, bulk_request, replace_file,
};
use bulk_reshuffle_stack::{Client, port, wait};
use serde_json::{Value, json};
use tokio::net::TcpStream;

const LIMIT: Duration = Duration::from_secs(15);

const KUBERNETES: &str = "examples/kubernetes/envoy.yaml";
const GATEWAY: &str = "envoy/gateway.yaml";

/// Headers in which Envoy forwards a client's address.
const ADDRESSES: [&str; 2] = ["x-forwarded-for", "x-envoy-external-address"];

/// Returns the scene of the example for Kubernetes, with its listener for probes at this port on loopback.
fn edge(probes: u16, change: impl FnOnce(&mut Value) + Send + 'static) -> SceneOptions {
    Scene::of(ClusterScript::three_nodes()).one_cluster().file(KUBERNETES).edit(move |config| {
        let admin = config["admin"]["address"].clone();
        let endpoints = json!([{"lb_endpoints": [{"endpoint": {"address": admin}}]}]);
        let cluster = json!({"name": "admin", "load_assignment": {"cluster_name": "admin", "endpoints": endpoints}});
        clusters(config).push(cluster);
        listen_on_loopback(config, probes);
        change(config);
        Ok(())
    })
}

fn read(file: &str) -> Value {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    serde_saphyr::from_str(&fs::read_to_string(root.join(file)).unwrap()).unwrap()
}

/// Returns the client-facing settings of a file, without those that depend on the deployment.
fn client_settings(file: &str) -> Value {
    let mut config = read(file);
    let heap = config.pointer_mut("/overload_manager/resource_monitors/0/typed_config/max_heap_size_bytes").unwrap();
    heap.take();
    let mut manager = manager(&mut config).as_object().unwrap().clone();
    let listener = &config["static_resources"]["listeners"][0];
    let name = listener["name"].as_str().unwrap();
    let limits = &config["layered_runtime"]["layers"][0]["static_layer"]["envoy"]["resource_limits"]["listener"];
    manager.retain(|field, _| !["http_filters", "route_config", "rds", "stat_prefix"].contains(&field.as_str()));
    let buffers = config["static_resources"]["clusters"].as_array().unwrap().iter();
    let buffers: Vec<_> = buffers.filter(|cluster| cluster["name"] != "admin").collect();
    assert!(buffers.iter().all(|cluster| cluster["per_connection_buffer_limit_bytes"] == 32768), "{file}");
    json!({
        "overload": config["overload_manager"],
        "admin": config["admin"],
        "connections": limits[name],
        "buffer": listener["per_connection_buffer_limit_bytes"],
        "manager": manager,
    })
}

#[test]
fn gateway_and_kubernetes_have_the_same_client_settings() {
    let settings = client_settings(GATEWAY);
    assert_eq!(settings, client_settings(KUBERNETES));
    assert_eq!(settings["buffer"], 32768);
    let connections = |place: &str| settings.pointer(place).and_then(Value::as_u64).unwrap();
    let all = connections("/overload/resource_monitors/1/typed_config/max_active_downstream_connections");
    assert!(connections("/connections/connection_limit") < all);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_share_batches_regardless_of_their_addresses() -> Result<()> {
    let scene = edge(port::free()?, |_| {}).start().await?;
    let gate = scene.cluster.hold();
    let before = scene.begin_bulk("/_bulk", &[], scene.cluster.write_book(0, 0)?);
    scene.wait_for_operations(1).await?;
    let mut answers = Vec::new();
    for (number, said) in (1..).zip(["10.0.0.1", "10.0.0.2", "10.0.0.3"]) {
        let client = Client::at([127, 0, 0, u8::try_from(number)?].into());
        let headers = ADDRESSES.map(|name| (name, said));
        let request = bulk_request(&scene.envoy.url("/_bulk"), &headers, scene.cluster.write_book(0, number)?)?;
        answers.push(tokio::spawn(async move { client.send(request).await }));
    }
    scene.wait_for_operations(4).await?;
    gate.open();
    before.get().await?.ok()?;
    for answer in answers {
        assert_eq!(Item::read_all(&answer.await??)?.len(), 1);
    }
    let batches = scene.cluster.bulks();
    let operations: Vec<_> = batches.iter().map(|batch| batch.operations().unwrap().len()).collect();
    assert_eq!(operations, [1, 3]);
    let addresses = |request: &Recorded| ADDRESSES.map(|name| request.header(name).map(str::to_owned));
    assert!(batches.iter().all(|batch| addresses(batch) == [None, None]), "{batches:?}");
    // A request that passes through does not forward the address either.
    scene.bulk_with("/_bulk?pipeline=p", &[("x-forwarded-for", "10.0.0.1")], scene.cluster.write_book(0, 0)?).await?;
    assert_eq!(addresses(&scene.cluster.bulks().pop().unwrap()), [None, None]);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_paths_and_header_names_are_rejected_or_normalized() -> Result<()> {
    let scene = edge(port::free()?, |_| {}).start().await?;
    let body = scene.cluster.write_book(0, 0)?;
    let answer = scene.bulk_with("/_bulk", &[("x_tenant", "dave")], body.clone()).await?;
    assert_eq!(answer.status, 400);
    let answer = scene.bulk("/secret%2F..%2Fbooks/_bulk", body.clone()).await?;
    assert_eq!((answer.status.as_u16(), answer.headers["location"].to_str()?), (307, "/books/_bulk"));
    assert_eq!(scene.cluster.bulks().len(), 0);
    scene.bulk("/secret/..//./books/_bulk", body).await?.ok()?;
    assert_eq!(scene.cluster.bulks()[0].path(), "/books/_bulk");
    assert_eq!(scene.counted("requests_total.outcome.merged").await?, 1);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_request_fits_through_small_buffers_and_windows() -> Result<()> {
    let scene = edge(port::free()?, |_| {}).start().await?;
    let text = "x".repeat(2000);
    let line =
        |n| format!("{{\"index\":{{\"_index\":\"books\",\"_id\":\"{n}\"}}}}\n{{\"n\":{n},\"text\":\"{text}\"}}\n");
    let body: String = (0..5000).map(line).collect();
    let answer = scene.bulk("/_bulk", body.clone()).await?;
    let ids: Vec<_> = Item::read_all(&answer)?.into_iter().map(|item| item.id).collect();
    assert_eq!(ids, (0..5000).map(|n| n.to_string()).collect::<Vec<_>>());
    let mut http2 = Http2Client::connect(scene.envoy.addr()).await?;
    let answer = http2.bulk("/_bulk", body.as_bytes(), 1 << 20, None).await?;
    assert_eq!(answer["items"].as_array().map(Vec::len), Some(5000));
    assert_eq!(scene.counted("requests_total.outcome.merged").await?, 2);
    // The same holds for a request that passes through.
    scene.bulk("/_bulk?pipeline=p", body.clone()).await?.ok()?;
    assert_eq!(scene.cluster.bulks().pop().unwrap().body, body);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn under_memory_pressure_new_requests_are_refused_and_held_ones_answered() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pressure = folder.path().join("pressure");
    let set = |value: &str| replace_file(&pressure, value.to_owned());
    set("0.5")?;
    let (file, probes) = (pressure.clone(), port::free()?);
    // Its subject is a process that runs out of memory.
    let scene = edge(probes, move |config| {
        // Replace the heap monitor with one that the test controls.
        let monitor = &mut config["overload_manager"]["resource_monitors"][0];
        assert_eq!(monitor["name"], "envoy.resource_monitors.fixed_heap");
        monitor["name"] = json!("envoy.resource_monitors.injected_resource");
        monitor["typed_config"] = json!({
            "@type": "type.googleapis.com/envoy.extensions.resource_monitors.injected_resource.v3.InjectedResourceConfig",
            "filename": file,
        });
        for action in config["overload_manager"]["actions"].as_array_mut().unwrap() {
            action["triggers"][0]["name"] = json!("envoy.resource_monitors.injected_resource");
        }
    });
    let scene = scene.own_envoy().start().await?;
    let gate = scene.cluster.hold();
    let held = scene.begin_bulk("/_bulk", &[], scene.cluster.write_book(0, 0)?);
    scene.cluster.wait_for_bulks("the batch", |batches| batches.len() == 1).await?;

    set("0.99")?;
    scene.wait_for_stat("overload.envoy.overload_actions.stop_accepting_requests.active", |is| is == 1).await?;
    let refused = wait::until(LIMIT, "the worker refuses requests", async || {
        let answer = scene.client.get(&scene.envoy.url("/_cat/nodes")).await?;
        Ok((answer.status == 503).then_some(answer.text()))
    });
    assert_eq!(refused.await?, "envoy overloaded");
    let answer = scene.bulk("/_bulk", scene.cluster.write_book(1, 0)?).await?;
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (503, "envoy overloaded"));
    // If the probe failed, Kubernetes would end the pod and its held requests.
    let ready = scene.client.get(&format!("http://{}/ready", port::loopback(probes))).await?;
    assert_eq!(ready.status, 200);
    gate.open();
    assert_eq!(Item::read_all(&held.get().await?)?[0].status, 201);

    set("0.5")?;
    scene.wait_for_stat("overload.envoy.overload_actions.stop_accepting_requests.active", |is| is == 0).await?;
    wait::until(LIMIT, "requests are accepted again", async || {
        Ok((scene.bulk("/_bulk", scene.cluster.write_book(1, 0)?).await?.status == 200).then_some(()))
    })
    .await?;
    scene.finish().await
}

/// Exhausts the connections that this limit permits. Envoy counts the overflow under this name.
async fn take_all_connections(limit: &'static str, overflow: &str) -> Result<()> {
    println!("{limit}:");
    let probes = port::free()?;
    // Its subject is a process that runs out of connections.
    let scene = edge(probes, move |config| *config.pointer_mut(limit).unwrap() = json!(8)).own_envoy().start().await?;
    let mut greedy = Vec::new();
    for _ in 0..32 {
        greedy.push(TcpStream::connect(scene.envoy.addr()).await?);
    }
    let overflow = format!("listener.127.0.0.1_{}.{overflow}", scene.envoy.addr().port());
    scene.wait_for_stat(&overflow, |count| count > 0).await?;
    let late = Client::new().with_timeout(Duration::from_secs(5)).get(&scene.envoy.url("/_cat/nodes")).await;
    assert!(late.is_err(), "{late:?}");
    let url = format!("http://{}", port::loopback(probes));
    for path in ["/ready", "/stats/prometheus"] {
        assert_eq!(Client::new().get(&format!("{url}{path}")).await?.status, 200, "{path}");
    }
    drop(greedy);
    wait::until(LIMIT, "a connection is accepted again", async || {
        Ok(Client::new().get(&scene.envoy.url("/_cat/nodes")).await.is_ok().then_some(()))
    })
    .await?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_are_answered_while_clients_exhaust_the_connections_of_envoy_or_a_listener() -> Result<()> {
    let of_envoy = "/overload_manager/resource_monitors/1/typed_config/max_active_downstream_connections";
    let of_listener =
        "/layered_runtime/layers/0/static_layer/envoy/resource_limits/listener/elasticsearch/connection_limit";
    take_all_connections(of_envoy, "downstream_global_cx_overflow").await?;
    take_all_connections(of_listener, "downstream_cx_overflow").await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_request_times_out_and_a_held_one_does_not() -> Result<()> {
    let scene = edge(port::free()?, |config| manager(config)["request_timeout"] = json!("1s")).start().await?;
    let gate = scene.cluster.hold();
    let held = scene.begin_bulk("/_bulk", &[], scene.cluster.write_book(0, 0)?);
    scene.wait_for_operations(1).await?;
    // The held request started earlier, so its time is over when the slow one times out.
    let mut slow = RawClient::connect(scene.envoy.addr()).await?;
    slow.send_head("/_bulk", "content-length: 1000").await?;
    slow.send(scene.cluster.write_book(1, 0)?).await?;
    let answer = slow.read_to_end().await?;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.ends_with("request timeout"), "{answer}");
    assert!(!held.is_there());
    gate.open();
    assert_eq!(Item::read_all(&held.get().await?)?[0].status, 201);
    // No operation of the incomplete request was carried out.
    assert_eq!(scene.cluster.bulks().len(), 1);
    scene.finish().await
}
