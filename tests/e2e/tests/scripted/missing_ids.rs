//! Operations without a document id.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{ClusterScript, Index, Item, Reaction, Scene};
use bulk_reshuffle_stack::{Client, wait};
use serde_json::{Value, json};

/// Returns operations without an id, with spaces in all permitted places, around an operation with an id.
fn body(scene: &Scene) -> String {
    let with_id = format!("{{\"index\":{{\"_id\":\"{}\"}}}}\n{{\"n\":1}}\n", scene.cluster.book(0, 0).unwrap());
    let without = "{\"index\":{}}\n{\"n\":0}\n".to_owned();
    let spaces = " { \"create\"\t: {  } } \r\n{\"n\":2}\n";
    without + &with_id + spaces + "{\"index\":{ }}\n{\"n\":3}\n"
}

/// Returns the bytes of an id that identify the VM.
fn vm(id: &str) -> &str {
    &id[8..16]
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_generated_and_determine_the_nodes_of_documents() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).config(json!({"missing_id": "generate"})).start().await?;
    let mut generated = BTreeSet::new();
    for _ in 0..20 {
        let items = Item::read_all(&scene.bulk("/books/_bulk", body(&scene)).await?)?;
        assert_eq!(items.iter().map(Item::number).collect::<Vec<_>>(), (0..4).map(Some).collect::<Vec<_>>());
        assert_eq!(items[1].id, scene.cluster.book(0, 0)?);
        generated.extend([0, 2, 3].map(|position: usize| items[position].id.clone()));
    }
    assert_eq!(generated.len(), 60);
    let allowed = |char: char| char.is_ascii_alphanumeric() || "-_".contains(char);
    assert!(generated.iter().all(|id| id.len() == 20 && id.chars().all(allowed)), "{generated:?}");
    assert_eq!(generated.iter().map(|id| vm(id)).collect::<BTreeSet<_>>().len(), 1);
    let mut sent = BTreeSet::new();
    for batch in scene.cluster.bulks() {
        for operation in batch.operations()? {
            let id = operation.id.context("no id")?;
            assert_eq!(scene.cluster.script().node("books", &id)?, batch.node);
            sent.insert(id);
        }
    }
    assert!(generated.is_subset(&sent));
    assert_eq!(scene.passed_through().await?, [].into());
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_two_workers_and_no_two_runs_generate_the_same_ids() -> Result<()> {
    let vms = Mutex::new(BTreeSet::new());
    for runs in 1..=2 {
        let scene = Scene::of(ClusterScript::three_nodes())
            .config(json!({"missing_id": "generate"}))
            .workers(2)
            .start()
            .await?;
        // A connection belongs to one worker.
        wait::until(Duration::from_secs(15), "both workers generate ids", async || {
            let answer = Client::new().post_ndjson(&scene.envoy.url("/books/_bulk"), "{\"index\":{}}\n{}\n").await?;
            let (id, mut vms) = (&Item::read_all(&answer)?[0].id, vms.lock().unwrap());
            // As long as a worker does not know the state, requests pass through, and a node generates the id.
            if !id.starts_with("generated-") {
                vms.insert(vm(id).to_owned());
            }
            Ok((vms.len() == 2 * runs).then_some(()))
        })
        .await?;
        let log = scene.envoy.log();
        assert!(!log.contains("cannot get random numbers"), "{log}");
        scene.finish().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_batch_is_retried_with_the_generated_ids() -> Result<()> {
    let config = json!({"missing_id": "generate", "retry": {"backoff": "10ms"}});
    let scene = Scene::of(ClusterScript::three_nodes()).config(config).start().await?;
    scene.cluster.react_first(1, Reaction::Reset);
    let items = Item::read_all(&scene.bulk("/books/_bulk", "{\"index\":{}}\n{\"n\":7}\n").await?)?;
    assert_eq!((items[0].status, items[0].number()), (201, Some(7)));
    let batches = scene.cluster.bulks();
    assert_eq!((batches.len(), batches[0].text()), (2, batches[1].text()));
    assert_eq!(batches[0].operations()?[0].id.as_ref(), Some(&items[0].id));
    // A second create would fail, so there is no retry. The error has the id under which the document may exist.
    scene.cluster.react_first(1, Reaction::Reset);
    let items = Item::read_all(&scene.bulk("/books/_bulk", "{\"create\":{}}\n{}\n").await?)?;
    let batches = scene.cluster.bulks();
    assert_eq!((batches.len(), items[0].status), (3, 503));
    assert_eq!(batches[2].operations()?[0].id.as_ref(), Some(&items[0].id));
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn direct_sends_a_request_to_one_shard_if_configured_for_its_index() -> Result<()> {
    let script = ClusterScript::three_nodes().index(Index::new("logs-a", [0, 1, 2]));
    let config = json!({"missing_id": "generate", "indices": [{"pattern": "logs-*", "missing_id": "direct"}]});
    let scene = Scene::of(script).config(config).start().await?;
    let mut nodes = Vec::new();
    for _ in 0..6 {
        let body = "{\"index\":{\"_index\":\"logs-a\"}}\n{\"n\":1}\n".repeat(4);
        let items = Item::read_all(&scene.bulk("/_bulk", body).await?)?;
        assert_eq!(items.iter().map(Item::number).collect::<Vec<_>>(), [Some(1); 4]);
        let batches = scene.cluster.bulks();
        assert_eq!(batches.len(), 1);
        let first: Value = serde_json::from_str(batches[0].text().lines().next().unwrap())?;
        let routing = first["index"]["routing"].as_str().context("no routing")?.to_owned();
        let line = format!("{{\"index\":{{\"routing\":\"{routing}\",\"_index\":\"logs-a\"}}}}\n{{\"n\":1}}\n");
        assert_eq!(batches[0].text(), line.repeat(4));
        assert_eq!(batches[0].node, scene.cluster.script().node("logs-a", &routing)?);
        nodes.push(batches[0].node);
        scene.cluster.forget();
    }
    assert_eq!(nodes[..3], nodes[3..]);
    assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), 3);
    // The general rule applies to other indices.
    let items = Item::read_all(&scene.bulk("/books/_bulk", "{\"index\":{}}\n{}\n").await?)?;
    assert_eq!(items[0].id.len(), 20);
    scene.finish().await
}
