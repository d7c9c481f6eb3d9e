//! `envoy/rollout.yaml`: one cluster behind two ports, and their metrics.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::time::Duration;

use bulk_reshuffle_e2e::{FakeCluster, Item, ShippedFiles, lines};
use bulk_reshuffle_stack::{port, wait};
use serde_json::json;

use crate::shared_scene::SharedScene;

const BATCHES: &str = "wasmcustom.bulk_reshuffle_batches_total";

/// Starts a scene. Returns also the URL of bulk requests at the port without the filter.
async fn start(name: &str, replace: impl FnOnce(ShippedFiles) -> ShippedFiles) -> (SharedScene, FakeCluster, String) {
    let plain = port::free().unwrap();
    let (scene, received) =
        SharedScene::start_shipped(name, "rollout.yaml", |files| replace(files.port(9210, plain))).await;
    (scene, received, format!("http://127.0.0.1:{plain}/_bulk"))
}

fn documents(index: &str) -> String {
    lines::documents(index, 0..300)
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ports_give_the_same_answers_and_only_one_splits() {
    let (scene, received, plain) = start("rollout", |files| files).await;
    let mut answers = Vec::new();
    for (index, url) in [("filtered", scene.envoy.url("/_bulk")), ("plain", plain)] {
        scene.index(index, json!({})).await;
        received.forget();
        let merged = scene.merged().await;
        let answer = scene.client.post_ndjson(&url, documents(index)).await.unwrap();
        let items = Item::read_all(&answer).unwrap();
        answers.push(items.into_iter().map(|item| (item.action, item.id, item.status)).collect::<Vec<_>>());
        let split = scene.merged().await - merged;
        let bulks: Vec<_> = received.bulks().iter().map(|bulk| bulk.text()).collect();
        match index {
            "filtered" => assert_eq!((split, bulks.len()), (1, 3)),
            _ => assert_eq!((split, bulks), (0, vec![documents(index)])),
        }
        assert_eq!(scene.documents(index).await, 300);
    }
    let expected: Vec<_> = (0..300).map(|n| ("index".to_owned(), n.to_string(), 201)).collect();
    assert_eq!(answers, [expected.clone(), expected]);
    assert_eq!(scene.counter("http.plain.downstream_rq_2xx").await, 1);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_metrics_have_the_upstream_the_reason_and_the_port() {
    let (scene, _received, plain) = start("rollout-prometheus", |files| files).await;
    scene.index("prometheus", json!({})).await;
    scene.client.post_ndjson(&plain, documents("prometheus")).await.unwrap().ok().unwrap();
    scene.client.post_ndjson(&scene.envoy.url("/_bulk?refresh=%66alse"), documents("prometheus")).await.unwrap();
    let (batches, stats) = (scene.by_upstream("batches").await, scene.envoy.stats().await.unwrap());
    assert_eq!(batches.keys().collect::<Vec<_>>(), ["es-0", "es-1", "es-2"]);
    let text = scene.client.get(&scene.envoy.admin_url("/stats/prometheus")).await.unwrap().text();
    let told: BTreeSet<&str> = text.lines().collect();
    let mut expected: Vec<_> = batches
        .iter()
        .map(|(upstream, number)| {
            format!(r#"bulk_reshuffle_batches_total{{upstream="{upstream}",coordinator="es"}} {number}"#)
        })
        .collect();
    let passed = r#"bulk_reshuffle_requests_total{outcome="passed_through",reason="parameter",coordinator="es"} 1"#;
    expected.push(passed.to_owned());
    for port in ["plain", "filtered"] {
        let number = stats[&format!("http.{port}.downstream_rq_completed")];
        let label = format!("envoy_http_conn_manager_prefix=\"{port}\"");
        expected.push(format!("envoy_http_downstream_rq_completed{{{label}}} {number}"));
    }
    for line in expected {
        assert!(told.contains(line.as_str()), "no {line} in\n{text}");
    }
    scene.end().await;
}

/// Adds up the values received for each of the filter's counters, by name and labels.
fn listen(socket: &UdpSocket, sums: &mut BTreeMap<String, u64>) {
    let mut datagram = vec![0; 1 << 16];
    while let Ok(length) = socket.recv(&mut datagram) {
        for line in std::str::from_utf8(&datagram[..length]).unwrap().lines() {
            // `envoy.a.counter:1|c|#upstream:es-0,coordinator:es`, or without the last part.
            let (name, rest) = line.split_once(':').unwrap();
            let mut parts = rest.split('|');
            let (value, kind, tags) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap_or_default());
            if kind == "c" && name.contains("bulk_reshuffle") {
                *sums.entry(format!("{name}{tags}")).or_default() += value.parse::<u64>().unwrap();
            }
        }
    }
}

/// Checks that statsd receives the batches of each upstream under names with these signs before the labels.
async fn check_statsd(name: &str, labels: [&str; 2], replace: impl FnOnce(ShippedFiles) -> ShippedFiles) {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    socket.set_nonblocking(true).unwrap();
    let port = socket.local_addr().unwrap().port();
    let quick =
        |files: ShippedFiles| files.port(8125, port).replace("stats_flush_interval: 5s", "stats_flush_interval: 0.1s");
    let (scene, _received, _) = start(name, |files| replace(quick(files))).await;
    scene.index(name, json!({})).await;
    let full = |upstream: &str| format!("envoy.{BATCHES}{}{upstream}{}es", labels[0], labels[1]);
    let told = RefCell::new(BTreeMap::new());
    // UDP loses datagrams that are not read in time, so each attempt sends more requests.
    wait::until(Duration::from_secs(20), "statsd receives metrics of all upstreams", async || {
        scene.bulk(&documents(name)).await.ok()?;
        listen(&socket, &mut told.borrow_mut());
        let number = |node| told.borrow().get(&full(&format!("es-{node}"))).copied();
        Ok((0..3).all(|node| number(node) > Some(0)).then_some(()))
    })
    .await
    .unwrap();
    for (upstream, batches) in scene.by_upstream("batches").await {
        let told = told.borrow()[&full(&upstream)];
        assert!(told <= batches, "{upstream}: {told} of {batches}");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statsd_receives_metrics_with_and_without_tags() {
    check_statsd("rollout-dogstatsd", ["#upstream:", ",coordinator:"], |files| files).await;
    // As a comment in the file describes.
    let without_tags = |files: ShippedFiles| {
        files
            .replace("- name: envoy.stat_sinks.dog_statsd", "- name: envoy.stat_sinks.statsd")
            .replace("v3.DogStatsdSink", "v3.StatsdSink")
            .replace("      max_bytes_per_datagram: 1432\n", "")
    };
    check_statsd("rollout-statsd", [".upstream.", ".coordinator."], without_tags).await;
}
