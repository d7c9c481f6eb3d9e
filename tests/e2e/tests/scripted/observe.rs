//! Requests that the filter only observes: they pass through at once, and it counts what it would have done.

use std::collections::BTreeMap;

use anyhow::Result;
use bulk_reshuffle_e2e::{ClusterScript, Index, Item, Items, Reaction, Scene, lines};
use serde_json::{Value, json};

/// The families that count real and observed requests.
const FAMILIES: [&str; 6] = [
    "requests_total",
    "operations_unrouted_total",
    "batches_total",
    "batch_requests_total",
    "batch_operations_total",
    "batch_bytes_total",
];

async fn start(enabled: Value) -> Result<Scene> {
    let script = ClusterScript::three_nodes()
        .index(Index::new("series", [0]).setting("mode", "another"))
        .index(Index::new("closed", [0]).closed());
    Scene::of(script).config(json!({"enabled": enabled})).start().await
}

/// Returns requests of all outcomes: paths and bodies.
fn requests(scene: &Scene) -> Result<Vec<(&'static str, String)>> {
    let mut requests = vec![
        ("/_bulk?unknown=1", scene.cluster.write_book(0, 0)?),
        ("/_bulk", lines::index("closed", "1", 1)),
        ("/_bulk", lines::index("series", "1", 1)),
        ("/_bulk", "\n".to_owned()),
        ("/_bulk", scene.cluster.write_books(0).repeat(3_000)),
    ];
    for number in 0..20 {
        requests.push(("/_bulk", scene.cluster.write_books(number)));
        requests.push(("/_bulk", scene.cluster.write_book(number % 3, number)?));
    }
    Ok(requests)
}

/// Returns the filter's counters of these families, which begin with a prefix.
async fn figures(scene: &Scene, prefix: &str) -> Result<BTreeMap<String, u64>> {
    let mut figures = BTreeMap::new();
    for family in FAMILIES {
        let name = format!("wasmcustom.bulk_reshuffle_{prefix}{family}.");
        for (full, count) in scene.envoy.stats_with(&format!("bulk_reshuffle_{prefix}{family}")).await? {
            let labels = full.strip_prefix(&name).filter(|labels| count > 0 && !labels.contains("observed"));
            figures.extend(labels.map(|labels| (format!("{family}.{labels}"), count)));
        }
    }
    Ok(figures)
}

#[tokio::test(flavor = "multi_thread")]
async fn observed_requests_arrive_unchanged_and_have_the_figures_of_split_ones() -> Result<()> {
    let observed = start(json!("observe")).await?;
    let requests = requests(&observed)?;
    for (path, body) in &requests {
        observed.bulk(path, body.clone()).await?;
        assert_eq!(observed.cluster.bulks().last().unwrap().text(), *body);
    }
    assert_eq!(observed.cluster.bulks().len(), requests.len());
    let sent = requests.len() as u64;
    observed.wait_for_count("requests_total.outcome.passed_through.reason.observed", sent).await?;
    assert_eq!(observed.passed_through().await?, [("observed".to_owned(), sent)].into());
    observed.wait_for_count("observed_requests_total.outcome.merged", sent - 3).await?;

    let split = start(json!(true)).await?;
    for (path, body) in &requests {
        split.bulk(path, body.clone()).await?;
    }
    split.wait_for_count("requests_total.outcome.merged", sent - 3).await?;
    assert_eq!(figures(&observed, "observed_").await?, figures(&split, "").await?);
    observed.finish().await?;
    split.finish().await
}

/// One node answers all requests. It sends the operations of the others on: two of them to the zone of this Envoy.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_go_on_to_another_node_or_zone_are_counted() -> Result<()> {
    let script = ClusterScript::three_nodes().zones(&["a", "a", "b"]);
    let options = Scene::of(script).coordinators([2]).config(json!({"enabled": "observe"})).own_envoy();
    let in_zone = |config: &mut Value| {
        config["node"]["locality"] = json!({"zone": "a"});
        Ok(())
    };
    let scene = options.edit(in_zone).start().await?;
    let mut bytes = [0; 3];
    for number in 0..10 {
        scene.bulk("/_bulk", scene.cluster.write_books(number)).await?.ok()?;
        for (node, sum) in bytes.iter_mut().enumerate() {
            *sum += scene.cluster.write_book(node, number)?.len() as u64;
        }
    }
    let [first, second, third] = bytes;
    let all = first + second + third;
    let expected = [
        ("bytes_total.outcome.located", all),
        ("bytes_total.outcome.unlocated", 0),
        ("bytes_between_nodes_total", first + second),
        ("bytes_between_zones_total.outcome.passed_through", all + first + second),
        ("bytes_between_zones_total.outcome.merged", third),
    ];
    for (name, count) in expected {
        let name = format!("observed_{name}");
        scene.wait_for_count(&name, count).await?;
        assert_eq!(scene.counted(&name).await?, count, "{name}");
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_lists_who_writes_how() -> Result<()> {
    const ADMIN_PATH: &str = "/_bulk_reshuffle";
    let config = json!({"enabled": "observe", "admin_path": ADMIN_PATH});
    let scene = Scene::of(ClusterScript::three_nodes()).config(config).start().await?;
    let alice = [("user-agent", "bulk/1"), ("authorization", "Basic YWxpY2U6c2VjcmV0")];
    let body = scene.cluster.write_books(0);
    let conflict = |items: &mut Vec<Value>| {
        items[1]["index"]["status"] = json!(409);
        items[1]["index"]["error"] =
            json!({"type": "version_conflict_engine_exception", "reason": "changed meanwhile"});
    };
    scene.cluster.react(move |_| Reaction::Items(Items::default().change(conflict)));
    scene.bulk_with("/_bulk", &alice, body.clone()).await?.ok()?;
    scene.cluster.react(|_| Reaction::refusal(429, "es_rejected_execution_exception", "full"));
    for path in ["/_bulk", "/books/_bulk?unknown=1"] {
        assert_eq!(scene.bulk_with(path, &alice, body.clone()).await?.status, 429);
    }
    let row = |status: &Value| {
        let rows = status["writers"].as_array().into_iter().flatten();
        let mut of_alice = rows.filter(|row| row["agent"] == "bulk/1" && row["user"] == "Basic alice");
        of_alice.find(|row| row["requests"] == 3).cloned()
    };
    let row = scene.wait_for_status(ADMIN_PATH, row).await?;
    assert_eq!(
        (&row["index"], &row["operations"], &row["bytes"]),
        (&json!("books"), &json!(6), &json!(2 * body.len()))
    );
    assert_eq!((&row["refused"], &row["passed_through_by_reason"]), (&json!(2), &json!({"parameter": 1})));
    let failed = json!({"version_conflict_engine_exception": 1, "es_rejected_execution_exception": 4});
    assert_eq!((&row["failed_by_type"], &row["unread_answers"]), (&failed, &json!(0)));
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_requests_that_write_to_an_observed_index_pass_through() -> Result<()> {
    let script = ClusterScript::three_nodes().index(Index::new("films", [1]));
    let config = json!({"indices": [{"pattern": "films", "enabled": "observe"}]});
    let scene = Scene::of(script).config(config).start().await?;
    let body = format!("{}{}", scene.cluster.write_books(0), lines::index("films", "1", 1));
    assert_eq!(Item::read_all(&scene.bulk("/_bulk", body.clone()).await?)?.len(), 4);
    assert_eq!(scene.cluster.bulks().iter().map(|bulk| bulk.text()).collect::<Vec<_>>(), [body]);
    scene.wait_for_count("observed_requests_total.outcome.merged", 1).await?;
    scene.bulk("/_bulk", scene.cluster.write_books(1)).await?.ok()?;
    assert_eq!(scene.cluster.bulks().len(), 1 + 3);
    assert_eq!(scene.passed_through().await?, [("observed".to_owned(), 1)].into());
    scene.finish().await
}
