//! What Envoy asks for at the edge, as `examples/kubernetes` and `envoy/gateway.yaml` set it, and what that does to
//! bulk requests.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{ClusterScript, Gate, Http2Client, Item, RawClient, Reaction, Recorded, Scene, SceneOptions};
use bulk_reshuffle_stack::{Client, port, wait};
use hyper::Request;
use serde_json::{Value, json};
use tokio::net::TcpStream;

const LIMIT: Duration = Duration::from_secs(15);

const KUBERNETES: &str = "examples/kubernetes/envoy.yaml";
const GATEWAY: &str = "envoy/gateway.yaml";

/// Headers in which Envoy tells a client's address.
const ADDRESSES: [&str; 2] = ["x-forwarded-for", "x-envoy-external-address"];

const MANAGER: &str = "/filter_chains/0/filters/0/typed_config";

/// The Envoy of the example for Kubernetes, with its listener for probes at this port of loopback.
fn edge(probes: u16, change: impl FnOnce(&mut Value) + Send + 'static) -> SceneOptions {
    Scene::of(ClusterScript::three_nodes()).file(KUBERNETES).edit(move |config| {
        let admin = config["admin"]["address"].clone();
        let endpoints = json!([{"lb_endpoints": [{"endpoint": {"address": admin}}]}]);
        let cluster = json!({"name": "admin", "load_assignment": {"cluster_name": "admin", "endpoints": endpoints}});
        config["static_resources"]["clusters"].as_array_mut().context("no clusters")?.push(cluster);
        for (listener, port) in [(0, None), (1, Some(probes))] {
            let address = &mut config["static_resources"]["listeners"][listener]["address"]["socket_address"];
            address["address"] = json!("127.0.0.1");
            if let Some(port) = port {
                address["port_value"] = json!(port);
            }
        }
        change(config);
        Ok(())
    })
}

fn manager(config: &mut Value) -> &mut Value {
    config["static_resources"]["listeners"][0].pointer_mut(MANAGER).unwrap()
}

fn read(file: &str) -> Value {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    serde_saphyr::from_str(&fs::read_to_string(root.join(file)).unwrap()).unwrap()
}

/// Holds all batches until the gate opens.
fn hold(scene: &Scene) -> Gate {
    let gate = Gate::closed();
    let closed = gate.clone();
    scene.cluster.react(move |_| Reaction::items().after(&closed));
    gate
}

/// What a file asks of its clients, without what differs from place to place.
fn asked_of_clients(file: &str) -> Value {
    let mut config = read(file);
    let heap = config.pointer_mut("/overload_manager/resource_monitors/0/typed_config/max_heap_size_bytes").unwrap();
    heap.take();
    let listener = &config["static_resources"]["listeners"][0];
    let name = listener["name"].as_str().unwrap();
    let limits = &config["layered_runtime"]["layers"][0]["static_layer"]["envoy"]["resource_limits"]["listener"];
    let mut manager = listener.pointer(MANAGER).unwrap().as_object().unwrap().clone();
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
fn gateway_and_kubernetes_ask_the_same_of_clients() {
    let asked = asked_of_clients(GATEWAY);
    assert_eq!(asked, asked_of_clients(KUBERNETES));
    assert_eq!(asked["buffer"], 32768);
    let connections = |place: &str| asked.pointer(place).and_then(Value::as_u64).unwrap();
    let all = connections("/overload/resource_monitors/1/typed_config/max_active_downstream_connections");
    assert!(connections("/connections/connection_limit") < all);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_share_batches_whatever_address_they_have_or_claim() -> Result<()> {
    let scene = edge(port::free()?, |_| {}).start().await?;
    let gate = hold(&scene);
    let before = scene.begin_bulk("/_bulk", &[], scene.cluster.write_book(0, 0)?);
    scene.wait_for_operations(1).await?;
    let mut answers = Vec::new();
    for (number, said) in (1..).zip(["10.0.0.1", "10.0.0.2", "10.0.0.3"]) {
        let client = Client::at([127, 0, 0, u8::try_from(number)?].into());
        let request = Request::post(scene.envoy.url("/_bulk")).header("content-type", "application/x-ndjson");
        let request = ADDRESSES.into_iter().fold(request, |request, name| request.header(name, said));
        let request = request.body(scene.cluster.write_book(0, number)?.into())?;
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
    // One that passes on whole tells as little.
    scene.bulk_with("/_bulk?pipeline=p", &[("x-forwarded-for", "10.0.0.1")], scene.cluster.write_book(0, 0)?).await?;
    assert_eq!(addresses(&scene.cluster.bulks().pop().unwrap()), [None, None]);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_and_names_that_two_servers_may_read_differently_do_not_get_in() -> Result<()> {
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
async fn a_large_request_passes_small_buffers_and_windows() -> Result<()> {
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
    // And so does one that passes on whole.
    scene.bulk("/_bulk?pipeline=p", body.clone()).await?.ok()?;
    assert_eq!(scene.cluster.bulks().pop().unwrap().body, body);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn while_memory_is_short_new_requests_are_refused_and_held_ones_answered() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pressure = folder.path().join("pressure");
    let set = |value: &str| -> Result<()> {
        let new = folder.path().join("new");
        fs::write(&new, value)?;
        Ok(fs::rename(new, &pressure)?)
    };
    set("0.5")?;
    let (file, probes) = (pressure.clone(), port::free()?);
    let scene = edge(probes, move |config| {
        // In the place of the heap, a monitor that the test controls.
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
    let scene = scene.start().await?;
    let gate = hold(&scene);
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
    // Kubernetes would end a pod whose probe fails, and with it what the pod holds.
    let ready = scene.client.get(&format!("http://{}/ready", port::loopback(probes))).await?;
    assert_eq!(ready.status, 200);
    gate.open();
    assert_eq!(Item::read_all(&held.get().await?)?[0].status, 201);

    set("0.5")?;
    scene.wait_for_stat("overload.envoy.overload_actions.stop_accepting_requests.active", |is| is == 0).await?;
    wait::until(LIMIT, "requests are taken again", async || {
        Ok((scene.bulk("/_bulk", scene.cluster.write_book(1, 0)?).await?.status == 200).then_some(()))
    })
    .await?;
    scene.finish().await
}

/// Takes all connections that this change leaves, which Envoy counts under this name.
async fn take_all_connections(change: impl FnOnce(&mut Value) + Send + 'static, overflow: &str) -> Result<()> {
    let probes = port::free()?;
    let scene = edge(probes, change).start().await?;
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
    wait::until(LIMIT, "there is room again", async || {
        Ok(Client::new().get(&scene.envoy.url("/_cat/nodes")).await.is_ok().then_some(()))
    })
    .await?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_take_all_connections_do_not_keep_probes_out() -> Result<()> {
    take_all_connections(
        |config| {
            let monitor = &mut config["overload_manager"]["resource_monitors"][1];
            monitor["typed_config"]["max_active_downstream_connections"] = json!(8);
        },
        "downstream_global_cx_overflow",
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_listeners_connections_have_a_limit_of_their_own() -> Result<()> {
    take_all_connections(
        |config| {
            let runtime = &mut config["layered_runtime"]["layers"][0]["static_layer"];
            let limit = runtime.pointer_mut("/envoy/resource_limits/listener/elasticsearch/connection_limit").unwrap();
            *limit = json!(8);
        },
        "downstream_cx_overflow",
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_does_not_end_is_ended_and_one_that_is_held_is_not() -> Result<()> {
    let scene = edge(port::free()?, |config| manager(config)["request_timeout"] = json!("1s")).start().await?;
    let gate = hold(&scene);
    let held = scene.begin_bulk("/_bulk", &[], scene.cluster.write_book(0, 0)?);
    scene.wait_for_operations(1).await?;
    // Both began before, so both clocks have run out when this one has.
    let mut slow = RawClient::connect(scene.envoy.addr()).await?;
    slow.send_head("/_bulk", "content-length: 1000").await?;
    slow.send(scene.cluster.write_book(1, 0)?).await?;
    let answer = slow.read_to_end().await?;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.ends_with("request timeout"), "{answer}");
    assert!(!held.is_there());
    gate.open();
    assert_eq!(Item::read_all(&held.get().await?)?[0].status, 201);
    // Nothing of the one that did not end was carried out.
    assert_eq!(scene.cluster.bulks().len(), 1);
    scene.finish().await
}
