use std::fs;

use bulk_reshuffle_browser::look_at;
use bulk_reshuffle_explorer::cluster::Cluster;
use bulk_reshuffle_explorer::sample;
use bulk_reshuffle_stack::Tools;
use serde_json::{Value, json};

/// Returns the explorer's sample with a fourth node that has one shard.
fn state() -> String {
    let mut state: Value = serde_json::from_str(&sample::state()).unwrap();
    state["nodes"]["n3"] = json!({"name": "es-3"});
    state["routing_table"]["indices"]["logs-000007"]["shards"]["5"][0]["node"] = json!("n3");
    state.to_string()
}

#[tokio::test]
async fn the_explorer_shows_the_engines_results() {
    let tools = Tools::find().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let body = format!("{}{{\"index\":{{\"_index\":\"logs\"}}}}\n{{}}\n", sample::body());
    let broken = format!("{body}{{\"index\":{{\"_index\":\"nothing\"}}}}\n{{}}\n");
    let cluster =
        Cluster::new(&state(), r#"{"credentials": {"authorization": "ApiKey x"}, "missing_id": "generate"}"#).unwrap();
    let explain = |body: &str| cluster.explain("/_bulk", body.as_bytes(), 1000).unwrap();
    let explanation = explain(&body);
    let expected = json!({
        "configuration": cluster.config(),
        "forwarding": cluster.forwarding(&explanation), "explanation": explanation, "broken": explain(&broken),
    });
    let exported = cluster.engine(cluster.config(), 0).unwrap().export_state("*", 1000).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let variables = [
        ("EXPLORER", tools.root.join("dist/explorer").to_str().unwrap().to_owned()),
        ("EXPECTED", file("expected.json", &expected.to_string())),
        ("EXPORTED", file("exported.json", std::str::from_utf8(&exported).unwrap())),
        ("STATE", file("state.json", &state())),
        ("BODY", file("body.ndjson", &body)),
        ("BROKEN", file("broken.ndjson", &broken)),
    ];
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    look_at(&tools, "explorer", &variables).await.unwrap();
}
