//! The requests of Logstash, Fluent Bit and Vector, which no registry has. The requests are derived from the programs'
//! sources, and those of Fluent Bit also from a manual build. The tests check the parts of answers that the programs
//! read.

use std::collections::BTreeSet;
use std::fs;

use bulk_reshuffle_e2e::gzip;
use bulk_reshuffle_stack::Distribution::{Elasticsearch8, OpenSearch2};
use bulk_reshuffle_stack::{Client, Response};
use bytes::Bytes;
use hyper::{Method, Request};
use serde_json::{Value, json};

use super::shipment::{ENTRIES, Shipment, document, is_bad};
use crate::bulk_request::bulk_request;
use crate::readme;

/// The format of a shipper's bulk requests.
struct Shipper {
    config: &'static str,
    index: &'static str,
    path: &'static str,
    headers: &'static [(&'static str, &'static str)],
    /// Returns the action line of a document with this id.
    action: fn(index: &str, id: &Value) -> String,
    /// Whether headers contain the numbers of documents and bytes.
    has_size_headers: bool,
    gzip: bool,
    /// The shipper's other requests.
    other_requests: &'static [(Method, &'static str)],
}

const LOGSTASH: Shipper = Shipper {
    config: "logstash.conf",
    index: "logs-logstash",
    path: "/_bulk?filter_path=errors,items.*.error,items.*.status",
    headers: &[
        ("content-type", "application/json"),
        ("x-elastic-product-origin", "logstash-output-elasticsearch"),
        ("user-agent", "Elastic-logstash/9.1.0 (OS=Linux) logstash-output-elasticsearch/12.1.6"),
        ("connection", "Keep-Alive"),
        ("accept-encoding", "gzip,deflate"),
    ],
    // Logstash writes missing values as null.
    action: |index, id| format!("{{\"index\":{{\"_id\":{id},\"_index\":\"{index}\",\"routing\":null}}}}"),
    has_size_headers: true,
    gzip: false,
    other_requests: &[
        (Method::HEAD, "/"),
        (Method::GET, "/"),
        (Method::GET, "/_license"),
        (Method::HEAD, "/_index_template/ecs-logstash"),
    ],
};

const FLUENT_BIT: Shipper = Shipper {
    config: "fluent-bit.yaml",
    index: "logs-fluent-bit",
    path: "/_bulk",
    headers: &[("content-type", "application/x-ndjson"), ("user-agent", "Fluent-Bit"), ("connection", "keep-alive")],
    action: |index, id| format!("{{\"create\":{{\"_index\":\"{index}\",\"_id\":{id}}}}}"),
    has_size_headers: false,
    gzip: false,
    other_requests: &[],
};

const VECTOR: Shipper = Shipper {
    config: "vector.yaml",
    index: "logs-vector",
    path: "/_bulk?timeout=160s",
    headers: &[("content-type", "application/x-ndjson"), ("user-agent", "Vector/0.50.0 (x86_64-unknown-linux-gnu)")],
    action: |index, id| format!("{{\"index\":{{\"_index\":\"{index}\",\"_id\":{id}}}}}"),
    has_size_headers: false,
    gzip: false,
    other_requests: &[(Method::GET, "/"), (Method::GET, "/_cluster/health")],
};

impl Shipper {
    fn request(&self, url: &str, entries: &[u64], with_ids: bool) -> Request<Bytes> {
        let lines: String = entries
            .iter()
            .map(|n| {
                let document = document(*n);
                let id = if with_ids { document["id"].clone() } else { Value::Null };
                format!("{}\n{document}\n", (self.action)(self.index, &id))
            })
            .collect();
        let (documents, bytes) = (entries.len().to_string(), lines.len().to_string());
        let sizes =
            [("x-elastic-event-count", documents.as_str()), ("x-elastic-uncompressed-request-length", bytes.as_str())];
        let headers = self.headers.iter().copied().chain(sizes.into_iter().filter(|_| self.has_size_headers));
        bulk_request(&format!("{url}{}", self.path), headers, lines, self.gzip).unwrap()
    }

    /// Sends entries until none of them is refused with 429. Returns the numbers of those that cannot be indexed.
    async fn send(&self, client: Client, url: String, mut entries: Vec<u64>) -> Vec<u64> {
        let mut bad = Vec::new();
        while !entries.is_empty() {
            let answer = client.send(self.request(&url, &entries, true)).await.unwrap().ok().unwrap();
            let text = text(&answer);
            let found: Value = serde_json::from_str(&text).unwrap();
            let items = found["items"].as_array().unwrap();
            assert_eq!(items.len(), entries.len());
            // Vector searches for this text.
            let has_errors = text.contains("\"errors\":true");
            let mut refused = Vec::new();
            for (item, n) in items.iter().zip(&entries) {
                let item = item.as_object().unwrap().values().next().unwrap();
                let status = item["status"].as_u64().unwrap();
                assert!(status < 300 || has_errors);
                match status {
                    200 | 201 => assert!(item.get("error").is_none() && !is_bad(*n), "{item}"),
                    400 => bad.push(*n),
                    429 => refused.push(*n),
                    _ => panic!("{item}"),
                }
                let names: BTreeSet<_> = item.as_object().unwrap().keys().map(String::as_str).collect();
                let is_filtered = self.path.contains("filter_path");
                assert!(!is_filtered || names.is_subset(&BTreeSet::from(["error", "status"])), "{item}");
            }
            entries = refused;
        }
        bad
    }

    /// Sends all entries in concurrent requests of different sizes, as several workers do, and checks the results.
    async fn check(&'static self) {
        let shipment = Shipment::start_in_front_of(OpenSearch2, self.index).await;
        shipment.refuse_next();
        let (url, client) = (shipment.scene.envoy.url(""), shipment.scene.client.clone());
        let mut left = (0..ENTRIES).collect::<Vec<_>>();
        let mut workers = Vec::new();
        while !left.is_empty() {
            let rest = left.split_off(left.len().min(100 + workers.len()));
            let entries = std::mem::replace(&mut left, rest);
            workers.push(tokio::spawn(self.send(client.clone(), url.clone(), entries)));
        }
        let mut bad = Vec::new();
        for worker in workers {
            bad.extend(worker.await.unwrap());
        }
        bad.sort_unstable();
        assert_eq!(bad, shipment.bad().collect::<Vec<_>>());
        for (method, path) in self.other_requests {
            let mut answers = Vec::new();
            for url in [shipment.scene.direct(0, path), shipment.scene.envoy.url(path)] {
                let request = Request::builder().method(method).uri(url).body(Bytes::new()).unwrap();
                answers.push(client.send(request).await.unwrap().status);
            }
            assert_eq!(answers[0], answers[1], "{method} {path}");
        }
        shipment.check_documents().await;
        shipment.check_merged().await;
        shipment.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_logstash_are_split_and_share_batches() {
    LOGSTASH.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_requests_of_logstash_are_split_and_share_batches() {
    const COMPRESSED: Shipper = Shipper { index: "logs-logstash-gzip", gzip: true, ..LOGSTASH };
    COMPRESSED.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_fluent_bit_are_split_and_share_batches() {
    FLUENT_BIT.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_vector_are_split_and_share_batches() {
    VECTOR.check().await;
}

/// Returns an answer's body, decompressed if necessary.
fn text(answer: &Response) -> String {
    String::from_utf8(gzip::plain(&answer.headers, &answer.body).unwrap()).unwrap()
}

/// Tests Logstash without `document_id`, which is how it is mostly used.
#[tokio::test(flavor = "multi_thread")]
async fn logstash_without_ids_gets_them_from_the_filter() {
    for distribution in [OpenSearch2, Elasticsearch8] {
        const WITHOUT: Shipper = Shipper { index: "logs-logstash-generated", ..LOGSTASH };
        let shipment = Shipment::start_in_front_of(distribution, WITHOUT.index).await;
        let entries: Vec<_> = (0..ENTRIES).filter(|n| !is_bad(*n)).collect();
        let request = WITHOUT.request(&shipment.scene.envoy.url(""), &entries, false);
        let answer = shipment.scene.client.send(request).await.unwrap().ok().unwrap();
        assert!(text(&answer).contains("\"errors\":false"));
        let sources = shipment.scene.sources(WITHOUT.index).await;
        assert!(sources.keys().all(|id| id.len() == 20));
        let found: BTreeSet<_> = sources.values().map(Value::to_string).collect();
        assert_eq!(found, entries.iter().map(|n| document(*n).to_string()).collect());
        shipment.end().await;
    }
}

/// Checks that the configurations name the tested index, and that their syntax is valid as far as the test parses it.
#[test]
fn the_configurations_are_valid_and_name_the_tested_index() {
    let read = |name: &str| fs::read_to_string(readme::folder("shippers").join(name)).unwrap();
    let yaml = |name: &str| -> Value { serde_saphyr::from_str(&read(name)).unwrap() };
    assert_eq!(yaml(VECTOR.config)["sinks"]["elasticsearch"]["bulk"]["index"], VECTOR.index);
    let fluent_bit = yaml(FLUENT_BIT.config);
    let output = &fluent_bit["pipeline"]["outputs"][0];
    assert_eq!((&output["index"], &output["suppress_type_name"]), (&json!(FLUENT_BIT.index), &json!(true)));
    assert_eq!(yaml("filebeat.yml")["output.elasticsearch"]["index"], "logs-filebeat");
    let logstash = read(LOGSTASH.config);
    let code: Vec<_> = logstash.lines().map(|line| line.split(" #").next().unwrap().trim()).collect();
    let code: Vec<_> = code.into_iter().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert!(code.contains(&format!("index => \"{}\"", LOGSTASH.index).as_str()));
    let is_known = |line: &str| line == "}" || line.ends_with('{') || line.split_once(" => ").is_some();
    assert!(code.iter().all(|line| is_known(line)), "{code:?}");
    let braces = |brace: char| code.iter().filter(|line| line.ends_with(brace)).count();
    assert_eq!(braces('{'), 4);
    assert_eq!(code.iter().filter(|line| **line == "}").count(), 4);
}
