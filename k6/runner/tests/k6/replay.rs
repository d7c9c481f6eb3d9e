//! Tests of `replay.js`: against a real cluster and a real Envoy with the filter, and with parameters that it rejects.

use std::fmt::Write;
use std::path::Path;

use bulk_reshuffle_e2e::{ClusterScript, FakeCluster, Reaction, Recorded, check_filter};
use bulk_reshuffle_k6::{Site, activity};
use bulk_reshuffle_stack::{Client, Counters, FilterConfig, Profile, Tools};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::run::Run;

/// k6's exit codes.
const GOOD: i32 = 0;
const ABORTED: i32 = 108;

const INDEX: &str = "replayed-orders";
const BODIES: usize = 20;
const DOCUMENTS: usize = 60;
/// A value of `AUTHORIZATION`, which the script must not print.
const SECRET: &str = "Basic cmVwbGF5OnNlY3JldA==";

/// Returns bodies with an empty line between two of them. One operation fails: it deletes nothing, and one document of
/// the last body does not fit the mapping.
fn bodies() -> String {
    let mut text = String::new();
    for body in 0..BODIES {
        for document in 0..DOCUMENTS {
            let filler = "x".repeat(200);
            writeln!(text, r#"{{"index":{{"_index":"{INDEX}","_id":"{body}-{document}"}}}}"#).unwrap();
            writeln!(text, r#"{{"amount":{document},"note":"{filler} ä"}}"#).unwrap();
        }
        text.push('\n');
    }
    writeln!(text, r#"{{"create":{{"_id":"wrong", "_index" : "{INDEX}"}}}}"#).unwrap();
    text + "{\"amount\":\"much\"}\n"
}

struct Replay {
    folder: TempDir,
    client: Client,
    node: String,
}

impl Replay {
    async fn at(site: &Site) -> Self {
        let (folder, client, node) = (TempDir::new().unwrap(), Client::new(), site.nodes().remove(0));
        std::fs::write(folder.path().join("bodies.ndjson"), bodies()).unwrap();
        let index = json!({
            "settings": {"number_of_shards": 6, "number_of_replicas": 0},
            "mappings": {"properties": {"amount": {"type": "integer"}, "note": {"type": "keyword"}}},
        });
        client.put_json(&format!("{node}/{INDEX}"), &index).await.unwrap().ok().unwrap();
        Self { folder, client, node }
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
    let has_extremes = cell.contains('(') && cell.contains('–') && cell.ends_with(')');
    assert!(has_extremes, "{figure}: {cell} has no extremes");
    cell.split(' ').next().unwrap().replace(',', "").parse().unwrap_or_else(|_| panic!("{figure}: {cell}"))
}

#[tokio::test]
async fn recorded_requests_are_compared_on_a_real_cluster() {
    let tools = Tools::find().unwrap();
    let run_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("k6-replay");
    let filter = FilterConfig::Merged(json!({"cluster_state": {"refresh": "100ms"}}));
    let site = Site::start(&tools, &run_dir, Profile::Fast, filter).await.unwrap();
    let replay = Replay::at(&site).await;
    let before = Counters::read(&site.envoy).await.unwrap();
    let run = replay.run(&tools, &site, &[]).await;
    let output = &run.output;

    let documents = (BODIES * DOCUMENTS) as u64;
    for side in ["direct", "filter"] {
        let index = format!("replay-{side}-{INDEX}");
        assert_eq!(replay.count(&index).await, documents, "{index}");
        let settings = &replay.get(&index).await[&index];
        assert_eq!(settings["settings"]["index"]["number_of_shards"], "6", "{settings}");
        assert_eq!(settings["mappings"]["properties"]["amount"]["type"], "integer", "{settings}");
        let plan = format!("writes to {index} (1,201 operations in each pass)");
        assert!(output.contains(&plan), "{plan}");
        let outcome = output.lines().find(|line| line.starts_with(&format!("{side}: "))).unwrap();
        assert!(outcome.contains(" × 400 mapper_parsing_exception") && !outcome.contains(" × 409"), "{outcome}");
    }
    assert_eq!(replay.count(INDEX).await, 0, "the recorded index must stay as it is");
    assert!(output.contains("21 bodies with 1,201 operations: 1,200 index, 1 create"), "the plan is missing");
    assert!(output.contains("4 clients send for 16 s") && output.contains("at most 800,000 requests"));

    for figure in ["docs/s", "p50, ms", "p99, ms", "cluster CPU per document, µs"] {
        let [direct, filter, ratio] = [1, 2, 3].map(|column| median(output, figure, column));
        assert!(direct > 0.0 && filter > 0.0 && ratio > 0.0, "{figure}");
    }
    let [direct, _, ratio] = [1, 2, 3].map(|column| median(output, "bytes between nodes per document", column));
    assert!(direct > 100.0 && ratio < 0.2, "{direct} bytes between nodes, of which {ratio} remain");

    let counters = Counters::read(&site.envoy).await.unwrap().since(&before);
    println!("  the filter: {}", activity(&counters));
    assert!(counters.merged() > 100, "the filter must split the requests");

    // A second replay replaces the indices of the first one, and others stay.
    let sent =
        replay.run(&tools, &site, &[("ROUNDS", "1"), ("SECONDS", "1"), ("RATE", "20"), ("CREATE", "index")]).await;
    let requests = sent.output.lines().find(|line| line.starts_with("direct: 20 requests, 1,200 documents, 0 errors"));
    assert!(requests.is_some(), "20 requests in a second have 1,200 documents");
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
    assert_eq!(run.code, Some(ABORTED), "{}", run.output);
    run.output
}

const BODY: &str = "{\"index\":{\"_index\":\"logs\"}}\n{}\n";

#[tokio::test]
async fn missing_and_invalid_parameters_are_rejected() {
    for (name, value, expected) in [
        ("BODIES", "", "BODIES is missing: give a file"),
        ("DIRECT", "", "DIRECT is missing: give the address of the cluster"),
        ("FILTER", "", "FILTER is missing: give the address of Envoy"),
        ("FILTER", "envoy:9200", "begin it with http://"),
        ("ROUNDS", "0", "give a whole number from 1"),
        ("CREATE", "update", "give create or index"),
        ("BULK_PATH", "/_bulk?filter_path=took", "a filter_path without errors"),
        ("STATS", "http://me:secret@127.0.0.1:1", "GET http://…@127.0.0.1:1/_nodes/stats/process,transport: no answer"),
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
        ("{\"index\":{\"_index\":\"logs\"}}\n\n{}\n", "line 1 of BODIES has no document"),
    ] {
        let output = refusal(bodies, &[]).await;
        assert!(output.contains(expected), "{bodies:?}\n{output}");
    }
}

#[tokio::test]
async fn a_foreign_index_is_not_changed() {
    let cluster = FakeCluster::start(ClusterScript::new(1)).await.unwrap();
    cluster.react_to_state_queries(|request| Some(foreign_index(request)));
    let address = format!("http://{}", cluster.addresses().next().unwrap());
    let output = refusal(BODY, &[("DIRECT", &address), ("FILTER", &address)]).await;
    assert!(output.contains("there is an index or alias replay-direct-logs that no replay made"), "{output}");
    let others = cluster.others();
    assert!(others.iter().all(|request| request.method == "GET") && cluster.bulks().is_empty(), "{others:?}");
}

fn foreign_index(request: &Recorded) -> Reaction {
    let stats = json!({"process": {"cpu": {"total_in_millis": 1}}, "transport": {"rx_size_in_bytes": 1}});
    let index = json!({"settings": {"index": {"number_of_shards": "1"}}, "mappings": {}});
    match request.path().starts_with("/_nodes") {
        true => Reaction::raw(json!({"nodes": {"fake": stats}}).to_string()),
        false => Reaction::raw(json!({"logs": index}).to_string()),
    }
}
