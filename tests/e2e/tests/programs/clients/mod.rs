//! Unmodified clients from their registries, with their own bulk helpers and one by one, in front of the filter and
//! real clusters.
//!
//! `make test-clients` fetches their dependencies and runs them, one cluster after the other.

mod chat_history;
mod helper;
mod operation;
mod report;
mod spring_data;

use bulk_reshuffle_stack::Distribution::{self, *};
use serde_json::json;
use tokio::runtime::Handle;

use self::helper::{Client::*, Helper, OF_GO, WITHOUT_FILTER_PATH};
use self::report::Told::*;
use crate::shared_scene::SharedScene;

const OF_ELASTICSEARCH_7_10: &[Helper] = &[
    Helper::new(Python("elasticsearch-py-7"), "bulk", Failed),
    Helper::new(Python("elasticsearch-py-7"), "streaming_bulk", All),
    Helper::new(Python("elasticsearch-py-7"), "parallel_bulk", All),
    Helper::single(Python("elasticsearch-py-7"), "single", &[&[], &["--compress", "--filter-path"]]),
];

/// This client asks for the server's version first, which the tests' Elasticsearch 8 does not answer.
const OF_ELASTICSEARCH_7_17: &[Helper] = &[Helper::single(Ruby, "single", WITHOUT_FILTER_PATH)];

/// Clients of version 8 refuse answers without Elasticsearch's product header.
const OF_ELASTICSEARCH_8: &[Helper] = &[
    Helper::new(Python("elasticsearch-py-8"), "bulk", Failed),
    Helper::new(Python("elasticsearch-py-8"), "streaming_bulk", All),
    Helper::new(Python("elasticsearch-py-8"), "parallel_bulk", All),
    Helper::new(Python("elasticsearch-py-8"), "async_bulk", Failed),
    Helper::new(Python("elasticsearch-py-8"), "async_streaming_bulk", All),
    Helper::single(Python("elasticsearch-py-8"), "single", &[&[], &["--compress", "--filter-path"]]),
    Helper::new(JavaScript, "elasticsearch", All),
    Helper::single(JavaScript, "elasticsearch", &[&["--single"], &["--single", "--compress"]]),
    Helper::new(Go, "elasticsearch", All),
    Helper::single(Go, "elasticsearch", OF_GO),
    Helper::single(Java("elasticsearch-java", "ElasticsearchOperations"), "single", WITHOUT_FILTER_PATH),
];

const OF_OPENSEARCH_2: &[Helper] = &[
    Helper::new(Python("opensearch-py"), "bulk", Failed),
    Helper::new(Python("opensearch-py"), "streaming_bulk", All),
    Helper::new(Python("opensearch-py"), "parallel_bulk", All),
    Helper::single(Python("opensearch-py"), "single", &[&[], &["--compress", "--filter-path"]]),
    Helper::new(JavaScript, "opensearch", Failed),
    Helper::single(JavaScript, "opensearch", &[&["--single"], &["--single", "--compress"]]),
    Helper { styles: WITHOUT_FILTER_PATH, ..Helper::new(Go, "opensearch", All) },
    Helper::single(Go, "opensearch", OF_GO),
    Helper::single(Java("opensearch-java", "OpenSearchOperations"), "single", WITHOUT_FILTER_PATH),
];

/// Checks every helper, and reports all that failed.
async fn check(distribution: Distribution, helpers: &'static [Helper]) {
    let mut failed = Vec::new();
    for helper in helpers {
        let check = move || Handle::current().block_on(helper.check(distribution));
        if tokio::task::spawn_blocking(check).await.is_err() {
            failed.push(helper);
        }
    }
    assert!(failed.is_empty(), "helpers that failed, as reported above: {failed:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn elasticsearch_7_10_helpers_report_all_outcomes() {
    check(Elasticsearch7_10, OF_ELASTICSEARCH_7_10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elasticsearch_7_17_helpers_report_all_outcomes() {
    check(Elasticsearch7_17, OF_ELASTICSEARCH_7_17).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elasticsearch_8_helpers_report_all_outcomes() {
    check(Elasticsearch8, OF_ELASTICSEARCH_8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elasticsearch_8_chat_history_reads_its_own_messages() {
    chat_history::check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elasticsearch_8_entities_of_spring_data_are_read_after_they_are_written() {
    spring_data::check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opensearch_2_helpers_report_all_outcomes() {
    check(OpenSearch2, OF_OPENSEARCH_2).await;
}

/// Checks that the header by which clients identify the server's product is the same through the filter as from a node,
/// whether the request is split or passes through.
async fn check_product_header(distribution: Distribution, expected: Option<&str>) {
    let scene = SharedScene::start_in_front_of(distribution, "product", json!({})).await;
    scene.index("product", json!({})).await;
    let body = "{\"index\":{\"_index\":\"product\",\"_id\":\"1\"}}\n{\"n\":1}\n";
    for (query, is_split) in [("", true), ("?_source=true", false)] {
        let before = scene.counts().await;
        let path = format!("/_bulk{query}");
        for url in [scene.direct(0, &path), scene.envoy.url(&path)] {
            let answer = scene.client.post_ndjson(&url, body).await.unwrap().ok().unwrap();
            let header = answer.headers.get("x-elastic-product").map(|value| value.to_str().unwrap());
            assert_eq!(header, expected, "{url}");
        }
        assert_eq!(scene.counts().await.since(&before).merged, u64::from(is_split));
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elasticsearch_7_10_answers_get_no_product_header() {
    check_product_header(Elasticsearch7_10, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elasticsearch_8_answers_have_the_product_header() {
    check_product_header(Elasticsearch8, Some("Elasticsearch")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opensearch_2_answers_get_no_product_header() {
    check_product_header(OpenSearch2, None).await;
}

/// This version quotes its input, which is the batch, in errors.
#[tokio::test(flavor = "multi_thread")]
async fn elasticsearch_7_10_errors_do_not_quote_other_clients() {
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
