//! Tests of `replay.js`: against a real cluster and a real Envoy with the filter, and with parameters that it rejects.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use bulk_reshuffle_e2e::{ClusterScript, FakeCluster, Reaction, Recorded, check_filter};
use bulk_reshuffle_k6::{Site, activity};
use bulk_reshuffle_stack::{Client, Counters, FilterConfig, Profile, Tools};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::run::Run;

/// k6's exit codes. One of the last two means that the script ended the run, with or without a stack trace.
const GOOD: i32 = 0;
const ENDED: [i32; 2] = [108, 107];

const INDEX: &str = "replayed-orders";
/// An alias of that index, and a data stream.
const ALIAS: &str = "replayed-alias";
const STREAM: &str = "replayed-stream";
/// The index of a request that the filter's sample records.
const SAMPLED: &str = "replayed-sample";
const INTERVAL: Duration = Duration::from_millis(100);
const BODIES: usize = 10;
const DOCUMENTS: usize = 60;
/// A value of `AUTHORIZATION`, which the script must not print.
const SECRET: &str = "Basic cmVwbGF5OnNlY3JldA==";

/// Returns bodies with an empty line between two of them. The document of the first body does not fit the mapping. The
/// second body has a document for the alias and one for the data stream. A slow cluster answers these in each turn too.
fn bodies() -> String {
    let mut text = String::new();
    writeln!(text, r#"{{"create":{{"_id":"wrong", "_index" : "{INDEX}"}}}}"#).unwrap();
    writeln!(text, r#"{{"amount":"much"}}"#).unwrap();
    text.push('\n');
    writeln!(text, r#"{{"index":{{"_index":"{ALIAS}","_id":"1"}}}}"#).unwrap();
    writeln!(text, r#"{{"amount":1}}"#).unwrap();
    writeln!(text, r#"{{"create":{{"_index":"{STREAM}"}}}}"#).unwrap();
    writeln!(text, r#"{{"@timestamp":"2026-01-01T00:00:00Z","amount":1}}"#).unwrap();
    for body in 0..BODIES {
        text.push('\n');
        for document in 0..DOCUMENTS {
            let filler = "x".repeat(200);
            writeln!(text, r#"{{"index":{{"_index":"{INDEX}","_id":"{body}-{document}"}}}}"#).unwrap();
            writeln!(text, r#"{{"amount":{document},"note":"{filler} ä"}}"#).unwrap();
        }
    }
    text
}

struct Replay {
    folder: TempDir,
    client: Client,
    node: String,
}

impl Replay {
    /// Makes the recorded indices, and records.
    async fn at(site: &Site) -> Self {
        let (folder, client, node) = (TempDir::new().unwrap(), Client::new(), site.nodes().remove(0));
        let index = json!({
            "settings": {"number_of_shards": 6, "number_of_replicas": 0},
            "mappings": {"properties": {"amount": {"type": "integer"}, "note": {"type": "keyword"}}},
        });
        let replay = Self { folder, client, node };
        for name in [INDEX, SAMPLED] {
            replay.put(name, &index).await;
        }
        replay.put(&format!("{INDEX}/_alias/{ALIAS}"), &json!({})).await;
        let template = json!({"index_patterns": [STREAM], "data_stream": {}, "template": index});
        replay.put(&format!("_index_template/{STREAM}"), &template).await;
        replay.put(&format!("_data_stream/{STREAM}"), &json!({})).await;
        let file = format!("{}\n\n{}", replay.sample(site).await, bodies());
        std::fs::write(replay.folder.path().join("bodies.ndjson"), file).unwrap();
        replay
    }

    /// Returns a sample of a request, which is sent until the filter knows its index.
    async fn sample(&self, site: &Site) -> String {
        let (sample, bulk) = (site.envoy.url("/_bulk_reshuffle/sample"), site.envoy.url(&format!("/{SAMPLED}/_bulk")));
        let sampling = self.client.get(&sample);
        tokio::pin!(sampling);
        loop {
            tokio::select! {
                sample = &mut sampling => return sample.unwrap().ok().unwrap().text(),
                () = tokio::time::sleep(INTERVAL) => {
                    let body = "{\"index\":{\"_id\":\"1\"}}\n{\"amount\":1}\n{\"index\":{\"_id\":\"2\"}}\n{}\n";
                    self.client.post_ndjson(&bulk, body).await.unwrap().ok().unwrap();
                }
            }
        }
    }

    async fn run(&self, tools: &Tools, site: &Site, more: &[(&str, &str)]) -> Run {
        let (nodes, envoy) = (site.nodes().join(","), site.target());
        let parameters = [
            ("BODIES", "bodies.ndjson"),
            ("PWD", self.folder.path().to_str().unwrap()),
            ("DIRECT", &nodes),
            ("FILTER", &envoy),
            ("AUTHORIZATION", SECRET),
            ("ROUNDS", "3"),
            ("SECONDS", "2"),
            ("CLIENTS", "4"),
        ];
        let run = Run::of(tools, "replay", "", parameters.iter().chain(more).copied()).await;
        println!("{}", run.output);
        assert_eq!(run.code, Some(GOOD));
        assert!(!run.output.contains("cmVwbGF5"), "the authorization was printed");
        run
    }

    async fn put(&self, path: &str, body: &Value) {
        self.client.put_json(&format!("{}/{path}", self.node), body).await.unwrap().ok().unwrap();
    }

    async fn count(&self, index: &str) -> u64 {
        self.get(&format!("{index}/_refresh")).await;
        self.get(&format!("{index}/_count")).await["count"].as_u64().unwrap()
    }

    async fn get(&self, path: &str) -> Value {
        self.client.get_json(&format!("{}/{path}", self.node)).await.unwrap()
    }
}

/// Returns the median of a row's column: 1 is `direct`, 2 is `filter`, 3 is the ratio.
fn median(output: &str, figure: &str, column: usize) -> f64 {
    let row = output.lines().find(|line| line.starts_with(&format!("| {figure} ")));
    let row = row.unwrap_or_else(|| panic!("no row {figure}\n{output}"));
    let cell = row.trim_matches('|').split('|').nth(column).unwrap().trim();
    // Bytes of several rounds may be equal after rounding.
    let has_extremes = cell.contains(" (") && cell.contains('–') && cell.ends_with(')');
    assert!(has_extremes || figure.starts_with("bytes"), "{figure}: {cell} has no extremes");
    cell.split(' ').next().unwrap().replace(',', "").parse().unwrap_or_else(|_| panic!("{figure}: {cell}"))
}

/// Returns the number of requests, documents and errors of a side.
fn outcome(output: &str, side: &str) -> (u64, u64, String) {
    let line = output.lines().find_map(|line| line.strip_prefix(&format!("{side}: ")));
    let line = line.unwrap_or_else(|| panic!("no outcome of {side}\n{output}"));
    let [requests, documents, errors] = line.splitn(3, ", ").collect::<Vec<_>>().try_into().unwrap();
    let number = |text: &str| text.split(' ').next().unwrap().replace(',', "").parse().unwrap();
    (number(requests), number(documents), errors.strip_prefix("errors: ").unwrap().to_owned())
}

#[tokio::test]
async fn recorded_requests_are_compared_on_a_real_cluster() {
    let tools = Tools::find().unwrap();
    let run_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("k6-replay");
    let settings = json!({"cluster_state": {"refresh": "100ms"}, "admin_path": "/_bulk_reshuffle"});
    let filter = FilterConfig::Merged(settings);
    let site = Site::start(&tools, &run_dir, Profile::Fast, filter).await.unwrap();
    let replay = Replay::at(&site).await;
    let before = Counters::read(&site.envoy).await.unwrap();
    let run = replay.run(&tools, &site, &[]).await;
    let output = &run.output;

    let documents = (BODIES * DOCUMENTS) as u64;
    for side in ["direct", "filter"] {
        let index = format!("replay-{side}-{INDEX}");
        assert_eq!(replay.count(&index).await, documents, "{index}");
        assert_eq!(replay.count(&format!("replay-{side}-{SAMPLED}")).await, 2);
        assert_eq!(replay.count(&format!("replay-{side}-{ALIAS}")).await, 1);
        assert!(replay.count(&format!("replay-{side}-{STREAM}")).await > 0);
        for name in [INDEX, ALIAS, STREAM].map(|name| format!("replay-{side}-{name}")) {
            // The copy of an alias or a data stream is an index.
            let settings = &replay.get(&name).await[&name];
            assert_eq!(settings["settings"]["index"]["number_of_shards"], "6", "{settings}");
            assert_eq!(settings["mappings"]["properties"]["amount"]["type"], "integer", "{settings}");
        }
        let plan = format!("{index} (operations in each pass: 601)");
        assert!(output.contains(&plan), "{plan}");
        let (_, _, errors) = outcome(output, side);
        assert!(errors.ends_with(" × 400 mapper_parsing_exception") && !errors.contains(','), "{errors}");
    }
    for name in [INDEX, ALIAS, STREAM] {
        assert_eq!(replay.count(name).await, 0, "{name} must stay as it is");
    }
    assert!(output.contains("13 bodies with 605 operations: 603 index, 2 create"), "the plan is missing");
    assert!(output.contains("4 clients send for 16 s") && output.contains("at most 800,000 requests"));

    for figure in ["docs/s", "p50, ms", "p99, ms", "cluster CPU per document, µs"] {
        let [direct, filter, ratio] = [1, 2, 3].map(|column| median(output, figure, column));
        assert!(direct > 0.0 && filter > 0.0 && ratio > 0.0, "{figure}");
    }
    let [direct, _, ratio] = [1, 2, 3].map(|column| median(output, "bytes between nodes per document", column));
    assert!(direct > 100.0 && ratio < 0.2, "{direct} bytes between nodes, of which {ratio} remain");

    let counters = Counters::read(&site.envoy).await.unwrap().since(&before);
    println!("  the filter: {}", activity(&counters));
    let passed = counters.passed_through().values().sum();
    assert!(counters.merged() > passed, "the filter must split most of the requests");

    // A second replay replaces the indices of the first one, and others stay.
    let sent =
        replay.run(&tools, &site, &[("ROUNDS", "1"), ("SECONDS", "1"), ("RATE", "10"), ("CREATE", "index")]).await;
    let (requests, written, errors) = outcome(&sent.output, "direct");
    // Where the nodes answer slowly, the clients may be too few for the rate, and the report says so.
    let is_late = sent.output.contains("% of the requests were sent late: give more CLIENTS");
    assert!(requests == 10 || (requests < 10 && is_late), "{requests} requests in a second at 10 a second");
    assert_eq!(written, 4 + (requests - 3) * DOCUMENTS as u64, "the second replay writes each document again");
    assert_eq!(errors, "1 × 400 mapper_parsing_exception");
    check_filter(&site.envoy).await.unwrap();
    site.stop().await.unwrap();
}

/// Returns the output of a run with these parameters and these bodies, which must fail.
async fn refusal(bodies: &str, parameters: &[(&str, &str)]) -> String {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("bodies.ndjson");
    std::fs::write(&file, bodies).unwrap();
    let all = [("BODIES", file.to_str().unwrap()), ("DIRECT", "http://127.0.0.1:1"), ("FILTER", "http://127.0.0.1:1")];
    let run = Run::of(&Tools::find().unwrap(), "replay", "", all.iter().chain(parameters).copied()).await;
    assert!(run.code.is_some_and(|code| ENDED.contains(&code)), "{:?}\n{}", run.code, run.output);
    run.output
}

const BODY: &str = "{\"index\":{\"_index\":\"logs\"}}\n{}\n";

#[tokio::test]
async fn missing_and_invalid_parameters_are_rejected() {
    for (name, value, expected) in [
        ("BODIES", "", "BODIES is missing: give a file"),
        ("DIRECT", "", "DIRECT is missing: give the address of a node"),
        ("FILTER", "", "FILTER is missing: give the address of Envoy"),
        ("FILTER", "envoy:9200", "begin it with http://"),
        ("ROUNDS", "0", "give a whole number from 1"),
        ("CREATE", "update", "give create or index"),
        ("BULK_PATH", "/_bulk?filter_path=took", "a filter_path without errors"),
        ("STATS", "http://me:secret@127.0.0.1:1", "GET http://…@127.0.0.1:1/_nodes/stats/process,transport: no"),
    ] {
        let output = refusal(BODY, &[(name, value)]).await;
        assert!(output.contains(expected), "{name}={value}\n{output}");
    }
}

#[tokio::test]
async fn bodies_that_cannot_be_replayed_are_rejected_with_their_line() {
    for (bodies, expected) in [
        ("\n\n", "is empty"),
        ("{\"index\":{}}\n{}\n", "line 1 of BODIES has no _index"),
        ("{\"index\":{\"_index\":\"logs\"}}\n{}\n\n\n{\"a\":1}\n", "line 5 of BODIES is not an action line"),
        ("{\"index\":{\"_index\":\"logs\"}}\n\n{}\n", "the body that ends at line 2 of BODIES has no document"),
    ] {
        let output = refusal(bodies, &[]).await;
        assert!(output.contains(expected), "{bodies:?}\n{output}");
    }
}

#[tokio::test]
async fn a_foreign_index_is_not_changed() {
    let index = json!({"logs": {"settings": {"index": {"number_of_shards": "1"}}, "mappings": {}}});
    let (cluster, address) = fake("a", Reaction::raw(index.to_string())).await;
    let output = refusal(BODY, &[("DIRECT", &address), ("FILTER", &address)]).await;
    assert!(output.contains("there is an index or alias replay-direct-logs that no replay made"), "{output}");
    let others = cluster.others();
    assert!(others.iter().all(|request| request.method == "GET") && cluster.bulks().is_empty(), "{others:?}");
}

#[tokio::test]
async fn addresses_of_two_clusters_are_rejected() {
    let ((_one, direct), (_other, filter)) = (fake("a", missing()).await, fake("b", missing()).await);
    let output = refusal(BODY, &[("DIRECT", &direct), ("FILTER", &filter)]).await;
    assert!(output.contains(&format!("FILTER, {filter}, leads to another cluster than STATS, {direct}")), "{output}");
}

#[tokio::test]
async fn an_address_that_writes_nothing_ends_the_run() {
    let (cluster, address) = fake("a", missing()).await;
    cluster.react(|_| Reaction::refusal(429, "rejected", "too many requests"));
    let body =
        "{\"create\":{\"_index\":\"logs\",\"version\":12345678901234567890}}\n{\"create\":{\"_index\":\"logs\"}}\n";
    let parameters = [("DIRECT", address.as_str()), ("FILTER", &address), ("SECONDS", "1"), ("CREATE", "index")];
    let output = refusal(body, &parameters).await;
    assert!(output.contains("has written no document: ") && output.contains("× status 429"), "{output}");
    // Only the action and the name in an action line change.
    let (_, document) = body.split_once('\n').unwrap();
    let action = r#"{"index":{"_index":"replay-direct-logs","version":12345678901234567890}}"#;
    let bulks = cluster.bulks();
    assert!(!bulks.is_empty() && bulks.iter().all(|bulk| bulk.text() == format!("{action}\n{document}")));
}

#[tokio::test]
async fn no_spelling_of_an_index_escapes_the_prefix() {
    let (cluster, address) = fake("a", missing()).await;
    for line in [r#"{"index":{"\u005findex":"logs"}}"#, r#"{"index":{"_index":"other","_index":"logs"}}"#] {
        let output = refusal(&format!("{line}\n{{}}\n"), &[("DIRECT", &address), ("FILTER", &address)]).await;
        assert!(output.contains("an unusual spelling of _index"), "{output}");
    }
    assert!(cluster.others().iter().all(|other| other.method == "GET") && cluster.bulks().is_empty());
}

#[tokio::test]
async fn an_index_in_the_path_gets_the_prefix_unless_it_is_empty() {
    let body = "{\"delete\":{\"_id\":\"1\"}}\n";
    let (cluster, address) = fake("a", missing()).await;
    cluster.react(|_| Reaction::refusal(429, "rejected", "too many requests"));
    let parameters = [("DIRECT", address.as_str()), ("FILTER", &address), ("SECONDS", "1"), ("REQUESTS", "3")];
    for (prefix, path) in [("copy-", "/copy-direct-logs/_bulk"), ("", "/logs/_bulk")] {
        let bulk_path = ("BULK_PATH", "/logs/_bulk?timeout=1m&filter_path=errors");
        refusal(body, &[&parameters[..], &[bulk_path, ("PREFIX", prefix)]].concat()).await;
        let bulks = cluster.bulks();
        let last = bulks.last().unwrap();
        assert_eq!((last.path(), last.text().as_str()), (path, body));
        assert!(bulks.len() % 3 == 0, "REQUESTS limits a turn");
    }
    let others = cluster.others();
    let changed: Vec<&str> = others.iter().filter(|other| other.method != "GET").map(Recorded::path).collect();
    assert_eq!(changed, ["/copy-direct-logs", "/copy-filter-logs"], "an empty PREFIX makes no index");
}

fn missing() -> Reaction {
    Reaction::refusal(404, "index_not_found_exception", "no such index")
}

/// Starts a cluster with one node of this id, which answers questions about indices with this reaction.
async fn fake(id: &'static str, index: Reaction) -> (FakeCluster, String) {
    let cluster = FakeCluster::start(ClusterScript::new(1)).await.unwrap();
    cluster.react_to_state_queries(move |request| Some(other_request(request, id, &index)));
    let address = format!("http://{}", cluster.addresses().next().unwrap());
    (cluster, address)
}

fn other_request(request: &Recorded, id: &str, index: &Reaction) -> Reaction {
    let stats = json!({"process": {"cpu": {"total_in_millis": 1}}, "transport": {"rx_size_in_bytes": 1}});
    match (request.method.as_str(), request.path().starts_with("/_nodes")) {
        ("GET", true) => Reaction::raw(json!({"nodes": {id: stats}}).to_string()),
        ("GET", false) => index.clone(),
        _ => Reaction::raw("{}"),
    }
}
