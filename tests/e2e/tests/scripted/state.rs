//! Polls of the cluster state.

use anyhow::Result;
use bulk_reshuffle_e2e::{ClusterScript, Index, Item, Reaction, Recorded, Scene, lines};
use serde_json::json;

/// Counts the queries for the version alone, for an overview, and for the aliases.
fn queries(requests: &[Recorded]) -> (usize, usize, usize) {
    let count = |path: &str| requests.iter().filter(|request| request.path() == path).count();
    (count("/_cluster/state/version"), count("/_cluster/state/version,nodes,metadata"), count("/_alias"))
}

fn quickly_refreshed(script: ClusterScript) -> bulk_reshuffle_e2e::SceneOptions {
    Scene::of(script).config(json!({"cluster_state": {"refresh": "200ms"}}))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_is_loaded_only_when_its_version_has_changed() -> Result<()> {
    let scene = quickly_refreshed(ClusterScript::three_nodes()).start().await?;
    let requests = scene.cluster.wait_for_others("four queries", |requests| requests.len() >= 4).await?;
    assert_eq!(queries(&requests).1, 0);
    scene.cluster.change(|_| {});
    scene.wait_for_count("state_loads_total", 1).await?;
    let requests = scene.cluster.others();
    let (_, overviews, aliases) = queries(&requests);
    assert_eq!((overviews, aliases), (1, 0));
    let named = |request: &&Recorded| request.path() == "/_cluster/state/version,metadata,routing_table/books";
    assert_eq!(requests.iter().filter(named).count(), 1);
    assert_eq!(scene.counted("state_errors_total").await?, 0);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_shard_has_moved_its_operations_go_to_the_new_node() -> Result<()> {
    let scene = quickly_refreshed(ClusterScript::three_nodes()).start().await?;
    let id = scene.cluster.book(0, 0)?;
    let shard = Index::new("books", [0, 1, 2]).shard(&id)?;
    scene.bulk("/_bulk", lines::index("books", &id, 1)).await?;
    assert_eq!(scene.cluster.bulks().last().unwrap().node, 0);

    scene.cluster.change(|script| script.index_mut("books").unwrap().move_primary(shard, Some(2)));
    scene.wait_for_states(2).await?;
    scene.bulk("/_bulk", lines::index("books", &id, 2)).await?;
    assert_eq!(scene.cluster.bulks().last().unwrap().node, 2);

    scene.cluster.change(|script| script.index_mut("books").unwrap().move_primary(shard, None));
    scene.wait_for_states(3).await?;
    scene.bulk("/_bulk", lines::index("books", &id, 3)).await?;
    assert_eq!(scene.passed_through().await?, [("primary".to_owned(), 1)].into());
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn aliases_are_loaded_with_the_state_and_resolved() -> Result<()> {
    let logs = |write: usize| {
        let alias = |number| json!({"is_write_index": number == write});
        let [first, second] =
            [0, 1].map(|number| Index::new(&format!("logs-{number}"), [number]).alias("logs", alias(number)));
        ClusterScript::new(2).index(first).index(second)
    };
    let scene = quickly_refreshed(logs(0)).start().await?;
    scene.bulk("/logs/_bulk", "{\"create\":{\"_id\":\"1\"}}\n{}\n").await?;
    assert_eq!(scene.cluster.bulks().last().unwrap().node, 0);
    scene.cluster.change(|script| *script = logs(1));
    scene.cluster.wait_for_others("aliases", |requests| queries(requests).2 >= 1).await?;
    scene.wait_for_states(2).await?;
    scene.bulk("/logs/_bulk", "{\"create\":{\"_id\":\"1\"}}\n{}\n").await?;
    assert_eq!(scene.cluster.bulks().last().unwrap().node, 1);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_index_triggers_an_early_poll() -> Result<()> {
    // An early poll happens after a fifth of the interval at the earliest, so well before its end.
    let config = json!({"cluster_state": {"refresh": "20s"}});
    let scene = Scene::of(ClusterScript::three_nodes()).config(config).start().await?;
    scene.cluster.change(|script| *script = script.clone().index(Index::new("new", [1])));
    scene.bulk("/_bulk", lines::index("new", "1", 1)).await?;
    assert_eq!(scene.passed_through().await?, [("unknown_index".to_owned(), 1)].into());
    scene.wait_for_count("state_loads_total", 1).await?;
    let items = Item::read_all(&scene.bulk("/_bulk", lines::index("new", "1", 2)).await?)?;
    assert_eq!(items[0].number(), Some(2));
    assert_eq!(scene.cluster.bulks().last().unwrap().node, 1);
    assert_eq!(scene.passed_through().await?, [("unknown_index".to_owned(), 1)].into());
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_known_state_stays_in_use_while_polls_fail() -> Result<()> {
    let mut scene = quickly_refreshed(ClusterScript::three_nodes()).coordinators([2]).start().await?;
    scene.take_down(2).await?;
    scene.wait_for_count("state_errors_total", 2).await?;
    let body: String = (0..2).map(|node| scene.cluster.write_book(node, 0).unwrap()).collect();
    assert_eq!(Item::read_all(&scene.bulk("/_bulk", body).await?)?.len(), 2);
    assert_eq!((scene.cluster.bulks_at(0).len(), scene.cluster.bulks_at(1).len()), (1, 1));
    scene.finish().await
}

/// Returns invalid answers to state queries.
fn invalid_states() -> Vec<Reaction> {
    let index = |metadata: &str| {
        let version = r#""version":7,"state_uuid":"odd","cluster_uuid":"fake""#;
        Reaction::raw(format!(r#"{{{version},"metadata":{{"indices":{{"books":{metadata}}}}}}}"#))
    };
    vec![
        Reaction::refusal(401, "security_exception", "missing credentials"),
        Reaction::refusal(503, "master_not_discovered_exception", "none"),
        Reaction::Status(302, vec![("location".into(), "/login".into())], "".into()),
        Reaction::raw(""),
        Reaction::raw("<html>"),
        Reaction::raw("{}"),
        Reaction::raw("null"),
        Reaction::raw("[]"),
        Reaction::raw(b"\xff\xfe".to_vec()),
        Reaction::raw("[".repeat(1_000_000)),
        Reaction::raw(r#"{"version":-1,"state_uuid":7}"#),
        index("7"),
        index(r#"{"aliases":{"not":"a list"}}"#),
        Reaction::Reset,
        Reaction::Break,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_state_is_refused_and_the_last_known_one_stays_in_use() -> Result<()> {
    let scene = quickly_refreshed(ClusterScript::three_nodes()).start().await?;
    scene.cluster.change(|_| {});
    let body = scene.cluster.write_books(0);
    for invalid in invalid_states() {
        let errors = scene.counted("state_errors_total").await?;
        let answer = invalid.clone();
        // The version query gets a valid answer, so that each poll queries the state itself.
        scene.cluster.react_to_state_queries(move |request| {
            (!request.target.starts_with("/_cluster/state/version?")).then(|| answer.clone())
        });
        scene.wait_for_count("state_errors_total", errors + 1).await?;
        assert_eq!(scene.counted("state_loads_total").await?, 0, "{invalid:?}");
        scene.cluster.forget();
        assert_eq!(Item::read_all(&scene.bulk("/_bulk", body.clone()).await?)?.len(), 3);
        assert_eq!(scene.cluster.bulks().len(), 3);
    }
    scene.cluster.react_to_state_queries(|_| None);
    scene.wait_for_count("state_loads_total", 1).await?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_on_an_index_with_invalid_metadata_go_to_the_coordinator() -> Result<()> {
    let scene = quickly_refreshed(ClusterScript::three_nodes()).start().await?;
    let mut expected = 0;
    for (shards, routing_shards) in [("0", 0), ("3", 0), ("3", 7), ("3", -1), ("4294967295", 0)] {
        scene.cluster.change(|_| {});
        let state = json!({
            "version": 1000 + expected, "state_uuid": format!("odd-{expected}"), "cluster_uuid": "fake",
            "metadata": {"indices": {"books": {"state": "open", "routing_num_shards": routing_shards, "settings":
                {"index": {"number_of_shards": shards, "version": {"created": "136408127"}}}}}},
        });
        let state = state.to_string();
        scene.cluster.react_to_state_queries(move |_| Some(Reaction::raw(state.clone())));
        expected += 1;
        scene.wait_for_states(expected + 1).await?;
        scene.bulk("/_bulk", scene.cluster.write_book(0, 0)?).await?;
        let reasons = scene.passed_through().await?;
        assert_eq!(reasons.get("unknown_settings"), Some(&expected), "{shards} of {routing_shards}: {reasons:?}");
    }
    scene.finish().await
}
