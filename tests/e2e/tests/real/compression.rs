use bulk_reshuffle_e2e::gzip::{self, Compression};
use bulk_reshuffle_e2e::{bulk_request, lines};
use bulk_reshuffle_stack::EnvoyOptions;
use serde_json::{Value, json};

use crate::shared_scene::SharedScene;

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_request_is_split_and_its_answer_compressed_if_the_client_accepts() {
    let scene = SharedScene::start("compression").await;
    scene.index("zipped", json!({})).await;
    let body = lines::documents("zipped", 0..2_000);
    for accepts in ["identity", "gzip, deflate"] {
        let before = scene.merged().await;
        let headers = [("content-encoding", "gzip"), ("accept-encoding", accepts)];
        let body = gzip::gzip(body.as_bytes(), Compression::default()).unwrap();
        let request = bulk_request(&scene.envoy.url("/_bulk"), &headers, body).unwrap();
        let answer = scene.client.send(request).await.unwrap().ok().unwrap();
        assert_eq!(scene.merged().await, before + 1);
        let compressed = answer.headers.get("content-encoding").is_some_and(|encoding| encoding == "gzip");
        assert_eq!(compressed, accepts != "identity");
        let answer: Value = serde_json::from_slice(&gzip::plain(&answer.headers, &answer.body).unwrap()).unwrap();
        assert_eq!(answer["errors"], false);
        assert_eq!(answer["items"].as_array().unwrap().len(), 2_000);
    }
    assert_eq!(scene.documents("zipped").await, 2_000);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_accept_compressed_batches() {
    let scene = SharedScene::start_with("compressed-batches", json!({"dispatch": {"compress": true}})).await;
    scene.index("batches", json!({})).await;
    let received = "cluster.es-0.upstream_rq_total";
    let sent = "cluster.es-0.upstream_cx_tx_bytes_total";
    let (requests, bytes) = (scene.counter(received).await, scene.counter(sent).await);
    let plain = scene.by_upstream("batch_bytes").await.get("es-0").copied().unwrap_or_default();
    let answer = scene.bulk(&lines::documents("batches", 0..5_000)).await.ok().unwrap().json().unwrap();
    assert_eq!((&answer["errors"], answer["items"].as_array().unwrap().len()), (&json!(false), 5_000));
    assert_eq!(scene.documents("batches").await, 5_000);
    let (requests, bytes) = (scene.counter(received).await - requests, scene.counter(sent).await - bytes);
    let plain = scene.by_upstream("batch_bytes").await["es-0"] - plain;
    assert!(requests >= 1 && plain > 50_000, "{requests} batches of {plain} bytes");
    assert!(bytes * 3 < plain, "{bytes} bytes were sent of {plain}");
    // Errors of documents are reported as without compression.
    let wrong = "{\"index\":{\"_index\":\"batches\",\"_id\":\"w\"}}\n{\"n\":\"many\"}\n";
    let answer = scene.bulk(wrong).await.ok().unwrap().json().unwrap();
    assert_eq!(answer["items"][0]["index"]["error"]["type"], "mapper_parsing_exception");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_for_nodes_in_other_zones_are_compressed() {
    let in_zone = |config: &mut Value| {
        config["node"]["locality"] = json!({"zone": "z1"});
        Ok(())
    };
    let change = |options: EnvoyOptions| EnvoyOptions { is_shared: false, ..options.edit(in_zone) };
    let (scene, received) = SharedScene::start_recorded("zones", json!({}), change).await;
    scene.index("zoned", json!({"index.number_of_shards": 3})).await;
    received.forget();
    let answer = scene.bulk(&lines::documents("zoned", 0..1_000)).await.ok().unwrap().json().unwrap();
    assert_eq!((&answer["errors"], answer["items"].as_array().unwrap().len()), (&json!(false), 1_000));
    assert_eq!(scene.documents("zoned").await, 1_000);
    for node in 0..3 {
        let batches = received.bulks_at(node);
        assert!(!batches.is_empty(), "node {node} got nothing");
        let zipped = batches.iter().filter(|batch| batch.header("content-encoding") == Some("gzip")).count();
        assert_eq!(zipped, if node == 1 { 0 } else { batches.len() }, "batches for node {node}");
    }
    scene.end().await;
}
