use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use hyper::Request;
use serde_json::{Value, json};

use crate::shared_scene::SharedScene;

fn gzip(plain: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_request_is_split_and_its_answer_compressed_if_the_client_accepts() {
    let scene = SharedScene::start("compression").await;
    scene.index("zipped", json!({})).await;
    let body: String = (0..2_000)
        .map(|n| format!("{{\"index\":{{\"_index\":\"zipped\",\"_id\":\"{n}\"}}}}\n{{\"n\":{n}}}\n"))
        .collect();
    let merged = "wasmcustom.bulk_reshuffle_requests_total.outcome.merged";
    for accepts in ["identity", "gzip, deflate"] {
        let before = scene.counter(merged).await;
        let request = Request::post(scene.envoy.url("/_bulk"))
            .header("content-type", "application/x-ndjson")
            .header("content-encoding", "gzip")
            .header("accept-encoding", accepts)
            .body(Bytes::from(gzip(&body)))
            .unwrap();
        let answer = scene.client.send(request).await.unwrap().ok().unwrap();
        assert_eq!(scene.counter(merged).await, before + 1);
        let compressed = answer.headers.get("content-encoding").is_some_and(|encoding| encoding == "gzip");
        assert_eq!(compressed, accepts != "identity");
        let mut text = String::new();
        match compressed {
            true => GzDecoder::new(answer.body.as_ref()).read_to_string(&mut text).map(|_| ()).unwrap(),
            false => text = answer.text(),
        }
        let answer: Value = serde_json::from_str(&text).unwrap();
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
    let body: String = (0..5_000)
        .map(|n| format!("{{\"index\":{{\"_index\":\"batches\",\"_id\":\"{n}\"}}}}\n{{\"n\":{n}}}\n"))
        .collect();
    let answer = scene.bulk(&body).await.ok().unwrap().json().unwrap();
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
