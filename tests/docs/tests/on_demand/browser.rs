//! Tests of the project's web pages in a real Chromium.
//!
//! `browser/pages/NAME.test.js` checks in JavaScript what a page shows, with the helpers in `browser/lib`. The tests
//! here start the backend (a cluster, an Envoy, the engine's expected results), and pass its address to the script.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::RealScene;
use bulk_reshuffle_e2e::load::{self, Clients};
use bulk_reshuffle_explorer::cluster::Cluster;
use bulk_reshuffle_explorer::sample;
use bulk_reshuffle_stack::{Client, FilterConfig, Tools};
use serde_json::{Value, json};
use tokio::process::Command;

/// The time limit of a script, which is generous even on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// Runs `tests/docs/browser/pages/NAME.test.js` with these environment variables, and prints its output. If a test of
/// the script fails, the error has the output.
async fn look_at(tools: &Tools, name: &str, variables: &[(&str, &str)]) -> Result<()> {
    let script = Path::new("tests/docs/browser/pages").join(name).with_extension("test.js");
    let mut command = Command::new(tools.folder("node")?.join("bin/node"));
    command
        .args(["--test", "--test-reporter=spec"])
        .arg(&script)
        .current_dir(&tools.root)
        // The script must not inherit the caller's environment, for example its proxy.
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("NODE_PATH", tools.folder("browser")?.join("node_modules"))
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, command.output()).await.context("the browser test timed out")??;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}:\n{said}{}", script.display(), String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    Ok(())
}

#[tokio::test]
async fn the_browser_shows_a_page_and_detects_its_errors() {
    look_at(&Tools::find().unwrap(), "first", &[]).await.unwrap();
}

#[tokio::test]
async fn the_site_shows_its_pages_and_finds_words() {
    let tools = Tools::find().unwrap();
    let site = tools.root.join("dist/site");
    look_at(&tools, "site", &[("SITE", site.to_str().unwrap())]).await.unwrap();
}

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
    let engine = cluster.engine(cluster.config(), 0).unwrap();
    let exported = serde_json::to_string(&engine.table().unwrap().export("*", 1000, None, None)).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let variables = [
        ("EXPLORER", tools.root.join("dist/explorer").to_str().unwrap().to_owned()),
        ("EXPECTED", file("expected.json", &expected.to_string())),
        ("EXPORTED", file("exported.json", &exported)),
        ("STATE", file("state.json", &state())),
        ("BODY", file("body.ndjson", &body)),
        ("BROKEN", file("broken.ndjson", &broken)),
    ];
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    look_at(&tools, "explorer", &variables).await.unwrap();
}

/// The number of clients, enough for batches of several requests.
const CLIENTS: usize = 48;

#[tokio::test(flavor = "multi_thread")]
async fn the_live_page_shows_what_the_filter_does_under_load() -> Result<()> {
    let tools = Tools::find()?;
    let filter = FilterConfig::Merged(json!({
        "admin_path": "/_bulk_reshuffle",
        "credentials": {"authorization": "Basic aHVzaDpodXNo"},
        "indices": [{"pattern": "watched", "enabled": "observe"}],
    }));
    let scene = RealScene::start(&tools, filter, &["logs", "piped", "watched"]).await?;
    scene.put("/_ingest/pipeline/nothing", json!({"processors": []})).await?;
    let mut clients = Clients::default();
    for client in 0..CLIENTS {
        let base = scene.envoy.url("");
        clients.add((), move |(), round| {
            // A few requests of two clients pass through, each client's for a different reason. Those of others are
            // observed.
            let path = match (client, round % 5) {
                (0, 0) => "/piped/_bulk?pipeline=nothing",
                (1, 0) => "/unknown/_bulk?require_alias=false&refresh=false&human&unheard=",
                (2..6, _) => "/watched/_bulk",
                _ => "/logs/_bulk",
            };
            let (url, first) = (format!("{base}{path}"), client * 1_000_000 + round * 7);
            async move {
                let result = load::write(&Client::new(), &url, first..first + 1 + client % 7).await;
                if path.contains("unheard") { Ok(()) } else { result }
            }
        });
    }
    let url = scene.envoy.url("/_bulk_reshuffle/");
    look_at(&tools, "live", &[("PAGE_URL", url.as_str())]).await?;
    look_at(&tools, "live_explorer", &[("PAGE_URL", url.as_str())]).await?;
    clients.end().await?;
    // When all requests are answered, the page must match Envoy's counters.
    look_at(&tools, "live_at_rest", &[("PAGE_URL", &url), ("STATS_URL", &scene.envoy.admin_url("/stats?format=json"))])
        .await?;
    scene.stop().await
}
