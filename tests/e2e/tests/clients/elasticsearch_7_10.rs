//! Clients of version 7 in front of Elasticsearch 7.10.

use bulk_reshuffle_stack::Distribution::Elasticsearch7_10;
use serde_json::json;

use crate::helper::{ALL_STYLES, Helper};
use crate::product;
use crate::program::Program;
use crate::report::Told;
use crate::shared_scene::SharedScene;

const PYTHON: Program = Program::Python("elasticsearch-py-7");

#[tokio::test(flavor = "multi_thread")]
async fn python_bulk_reports_all_outcomes() {
    Helper { program: PYTHON, name: "bulk", told: Told::Failed, styles: ALL_STYLES }.check(Elasticsearch7_10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_streaming_bulk_reports_all_outcomes() {
    let helper = Helper { program: PYTHON, name: "streaming_bulk", told: Told::All, styles: ALL_STYLES };
    helper.check(Elasticsearch7_10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_parallel_bulk_reports_all_outcomes() {
    let helper = Helper { program: PYTHON, name: "parallel_bulk", told: Told::All, styles: ALL_STYLES };
    helper.check(Elasticsearch7_10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_filter_adds_no_product_header() {
    product::check_header(Elasticsearch7_10, None).await;
}

/// This version quotes its input, which is the batch, in errors.
#[tokio::test(flavor = "multi_thread")]
async fn errors_do_not_quote_other_clients() {
    let scene = SharedScene::start_in_front_of(Elasticsearch7_10, "quotation", json!({})).await;
    scene.index("quotation", json!({"number_of_shards": 3})).await;
    let lines = |n: usize, document: &str| -> String {
        (0..6).map(|id| format!("{{\"index\":{{\"_id\":\"{n} {id}\"}}}}\n{document}\n")).collect()
    };
    let requests = (0..200).map(|n| {
        let (client, url) = (scene.client.clone(), scene.envoy.url("/quotation/_bulk"));
        let body = lines(n, if n % 2 == 0 { "{\"text\":\"a secret\"}" } else { "{\"n\":" });
        tokio::spawn(async move { (n, client.post_ndjson(&url, body).await.unwrap().text()) })
    });
    for request in requests.collect::<Vec<_>>() {
        let (n, answer) = request.await.unwrap();
        assert_eq!(
            answer.matches("at [Source: REDACTED; line: 1, ").count(),
            if n % 2 == 0 { 0 } else { 6 },
            "{answer}"
        );
        assert!(!answer.contains("secret"), "{answer}");
    }
    let (batches, requests) = (scene.by_upstream("batches").await, scene.by_upstream("batch_requests").await);
    assert!(batches.values().sum::<u64>() * 2 < requests.values().sum::<u64>(), "almost no requests shared a batch");
    scene.end().await;
}
