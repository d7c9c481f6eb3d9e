//! Tests that the scripts can fail: a scripted node returns every kind of wrong answer.

use std::collections::BTreeSet;

use bulk_reshuffle_e2e::{ClusterScript, FakeCluster, Items, Reaction, Recorded};
use bulk_reshuffle_stack::{Tools, port};
use serde_json::{Value, json};

use crate::run::Run;

/// Two requests of five operations, without a warm-up.
const PARAMETERS: &[(&str, &str)] = &[("WARM_UP", "0"), ("SIZES", "5"), ("DOCUMENTS", "10")];
const INDEX: &str = "/k6-bulk-size-5";

/// k6's exit codes.
const GOOD: i32 = 0;
const THRESHOLDS: i32 = 99;
const EXCEPTION: i32 = 107;

const CHECKS: [&str; 5] =
    ["status is 200", "one item for each", "action, index and id", "status that its", "`errors` says"];

/// Starts a node that accepts the script's index and its bulk requests, and reports this number of documents.
async fn node(counted: u64) -> FakeCluster {
    let cluster = FakeCluster::start(ClusterScript::new(1)).await.unwrap();
    cluster.react_to_state_queries(move |request| Some(other_request(request, counted)));
    cluster
}

fn other_request(request: &Recorded, counted: u64) -> Reaction {
    let path = request.path().to_owned();
    match (request.method.as_str(), path.strip_prefix(INDEX).unwrap_or(&path)) {
        ("GET", "/_mapping") => Reaction::refusal(404, "index_not_found_exception", "no such index"),
        ("PUT", "") => Reaction::raw(json!({"acknowledged": true, "shards_acknowledged": true}).to_string()),
        ("GET", "/_nodes") => Reaction::raw(json!({"nodes": {"fake": {"version": "0"}}}).to_string()),
        ("GET", "/_count") => Reaction::raw(json!({"count": counted}).to_string()),
        _ => Reaction::raw("{}"),
    }
}

async fn run_with(cluster: &FakeCluster, parameters: &[(&str, &str)]) -> Run {
    let address = cluster.addresses().next().unwrap();
    Run::of(&Tools::find().unwrap(), "bulk-size", &format!("http://{address}"), parameters.iter().copied()).await
}

/// Checks that the script fails for this reaction to its second request, and returns its output.
async fn failure(react: impl Fn(&Recorded) -> Reaction + Send + Sync + 'static) -> String {
    let cluster = node(10).await;
    cluster.react(move |request| if is_second(request) { react(request) } else { Reaction::items() });
    let run = run_with(&cluster, PARAMETERS).await;
    assert_eq!(run.code, Some(THRESHOLDS), "{}", run.output);
    run.output
}

fn is_second(request: &Recorded) -> bool {
    request.text().contains(r#""_id":"0100006""#)
}

/// Checks that exactly these checks of the script fail for changed items, and returns the output.
async fn items_failure(change: impl Fn(&mut Vec<Value>) + Send + Sync + Clone + 'static, failed: &[&str]) -> String {
    let output = failure(move |_| Reaction::Items(Items::default().change(change.clone()))).await;
    assert_failed(&output, failed);
    output
}

fn assert_failed(output: &str, failed: &[&str]) {
    for check in CHECKS {
        let line = output.lines().find(|line| line.contains(check)).unwrap_or_else(|| panic!("no {check}\n{output}"));
        assert_eq!(line.contains('✗'), failed.contains(&check), "{check}\n{output}");
    }
}

#[tokio::test]
async fn a_correct_answer_is_accepted() {
    let cluster = node(10).await;
    let run = run_with(&cluster, PARAMETERS).await;
    assert_eq!(run.code, Some(GOOD), "{}", run.output);
    assert!(run.output.contains("✓ k6-bulk-size-5: 10 documents acknowledged, 10 counted"), "{}", run.output);
    assert_failed(&run.output, &[]);
}

#[tokio::test]
async fn swapped_items_are_detected() {
    let output = items_failure(|items| items.swap(1, 3), &["action, index and id"]).await;
    assert!(output.contains("item 1 is"), "{output}");
}

#[tokio::test]
async fn an_item_of_another_action_or_index_is_detected() {
    let of_action = |items: &mut Vec<Value>| items[4] = json!({"index": items[4]["create"].clone()});
    items_failure(of_action, &["action, index and id", "status that its"]).await;
    items_failure(|items| items[0]["create"]["_index"] = json!("other"), &["action, index and id"]).await;
}

#[tokio::test]
async fn a_missing_or_an_extra_item_is_detected() {
    let after = ["one item for each", "action, index and id", "status that its", "`errors` says"];
    let output = items_failure(|items| drop(items.pop()), &after).await;
    assert!(output.contains("4 items for 5 operations"), "{output}");
    items_failure(|items| items.push(items[0].clone()), &after).await;
}

#[tokio::test]
async fn a_failed_item_is_detected() {
    let refuse = |items: &mut Vec<Value>| {
        items[2]["create"]["status"] = json!(429);
        items[2]["create"]["error"] = json!({"type": "rejected_execution_exception"});
    };
    let output = items_failure(refuse, &["status that its"]).await;
    assert!(output.contains("give fewer CLIENTS"), "{output}");
    assert!(output.contains("✗ k6-bulk-size-5: 9 documents acknowledged, 10 counted"), "{output}");
}

#[tokio::test]
async fn null_items_are_detected() {
    let failed = ["action, index and id", "status that its"];
    let output = items_failure(|items| items[3] = Value::Null, &failed).await;
    assert!(output.contains("item 3 is null"), "{output}");
    items_failure(|items| items[3] = json!({"create": null}), &failed).await;
}

#[tokio::test]
async fn an_existing_document_is_detected() {
    items_failure(|items| items[0]["create"]["status"] = json!(200), &["status that its"]).await;
}

#[tokio::test]
async fn a_wrong_errors_flag_is_detected() {
    let output = failure(|request| {
        let items: Vec<Value> = request
            .operations()
            .unwrap()
            .iter()
            .map(|operation| json!({"create": {"_index": operation.index, "_id": operation.id, "status": 201}}))
            .collect();
        Reaction::raw(json!({"errors": true, "items": items}).to_string())
    });
    assert_failed(&output.await, &["`errors` says"]);
}

#[tokio::test]
async fn an_answer_that_is_not_a_bulk_answer_is_detected() {
    let output = failure(|_| Reaction::refusal(503, "unavailable", "not now")).await;
    assert!(output.contains("status 503") && output.contains("not now"), "{output}");
    let output = failure(|_| Reaction::raw("<html>a proxy's page</html>")).await;
    assert!(output.contains("not a bulk answer"), "{output}");
    let output = failure(|_| Reaction::Reset).await;
    assert!(output.contains("no answer") && output.contains("Does something listen at TARGET"), "{output}");
}

#[tokio::test]
async fn a_wrong_number_of_documents_is_detected() {
    for (counted, expected) in [(9, "✗ k6-bulk-size-5: 10 documents acknowledged, 9 counted"), (11, ", 11 counted")] {
        let cluster = node(counted).await;
        let run = run_with(&cluster, PARAMETERS).await;
        assert_eq!(run.code, Some(THRESHOLDS), "{}", run.output);
        assert!(run.output.contains(expected), "{}", run.output);
        assert_failed(&run.output, &[]);
    }
}

#[tokio::test]
async fn a_failed_count_is_detected() {
    let cluster = node(10).await;
    cluster.react_to_state_queries(|request| match request.path().ends_with("/_count") {
        true => Some(Reaction::refusal(500, "broken", "no count today")),
        false => Some(other_request(request, 10)),
    });
    let run = run_with(&cluster, PARAMETERS).await;
    assert!(run.code.is_some_and(|code| code != GOOD), "{}", run.output);
    assert!(run.output.contains("no count today"), "{}", run.output);
}

#[tokio::test]
async fn a_foreign_index_is_not_changed() {
    let cluster = node(10).await;
    cluster.react_to_state_queries(|request| match request.path().ends_with("/_mapping") {
        true => Some(Reaction::raw(json!({"k6-bulk-size-5": {"mappings": {}}}).to_string())),
        false => Some(other_request(request, 10)),
    });
    let run = run_with(&cluster, PARAMETERS).await;
    assert_eq!(run.code, Some(EXCEPTION), "{}", run.output);
    assert!(run.output.contains("give INDEX another name"), "{}", run.output);
    let others = cluster.others();
    assert!(others.iter().all(|request| request.method == "GET") && cluster.bulks().is_empty(), "{others:?}");
}

#[tokio::test]
async fn a_target_without_a_server_is_reported() {
    let target = format!("http://{}", port::loopback(port::free().unwrap()));
    let run = Run::of(&Tools::find().unwrap(), "small", &target, [("WARM_UP", "0")]).await;
    assert_eq!(run.code, Some(EXCEPTION), "{}", run.output);
    assert!(run.output.contains("Does something listen at TARGET"), "{}", run.output);
}

#[tokio::test]
async fn invalid_parameters_are_rejected() {
    let cluster = node(10).await;
    for (name, value, expected) in [
        ("SIZES", "1,many", "give a whole number from 1 to 100000"),
        ("CLIENTS", "0", "give a whole number from 1"),
        ("IDS", "some", "give with or without"),
    ] {
        let run = run_with(&cluster, &[(name, value)]).await;
        assert_eq!(run.code, Some(EXCEPTION), "{}", run.output);
        assert!(run.output.contains(name) && run.output.contains(expected), "{}", run.output);
    }
    assert!(cluster.bulks().is_empty() && cluster.others().is_empty());
}

#[tokio::test]
async fn the_seed_determines_the_documents() {
    let mut written: Vec<BTreeSet<String>> = Vec::new();
    for seed in ["7", "7", "8"] {
        let cluster = node(10).await;
        let run = run_with(&cluster, &[PARAMETERS, &[("SEED", seed)]].concat()).await;
        assert_eq!(run.code, Some(GOOD), "{}", run.output);
        let bodies = cluster.bulks().iter().map(Recorded::text).filter(|body| body.contains("field1")).collect();
        written.push(bodies);
    }
    assert_eq!((written[0].len(), &written[0]), (2, &written[1]));
    assert!(written[0].is_disjoint(&written[2]));
}
