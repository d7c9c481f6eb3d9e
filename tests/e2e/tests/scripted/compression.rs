//! Compressed batches.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use bulk_reshuffle_e2e::{ClusterScript, Item, Reaction, Recorded, Scene, lines};
use serde_json::{Value, json};

/// Checks that a batch is declared as gzip, is gzip, and does not request a compressed answer.
fn assert_compressed(batch: &Recorded, plain: &str) {
    assert_eq!(batch.header("content-encoding"), Some("gzip"), "{batch:?}");
    assert_eq!(batch.header("content-length"), Some(batch.body.len().to_string().as_str()));
    assert_eq!(batch.header("accept-encoding"), None);
    assert_eq!(String::from_utf8(batch.plain().unwrap()).unwrap(), plain);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_compressed_also_when_retried_or_redirected() -> Result<()> {
    let config = json!({"dispatch": {"compress": true}, "retry": {"backoff": "10ms"}});
    let mut scene = Scene::of(ClusterScript::three_nodes()).coordinators([1]).config(config).start().await?;
    scene.take_down(0).await?;
    let refused = AtomicUsize::new(0);
    scene.cluster.react(move |request| match request.node {
        2 if refused.fetch_add(1, Ordering::Relaxed) == 0 => Reaction::refusal(429, "busy", "later"),
        _ => Reaction::items(),
    });
    let books = [0, 2].map(|node| lines::large("books", &scene.cluster.book(node, 0).unwrap(), 10_000));
    let accept = [("accept-encoding", "gzip")];
    let items = Item::read_all(&scene.bulk_with("/_bulk", &accept, books.concat()).await?)?;
    assert_eq!(items.iter().map(|item| item.status).collect::<Vec<_>>(), [201, 201]);
    assert_compressed(&scene.cluster.only_bulk_at(1)?, &books[0]);
    let again = scene.cluster.bulks_at(2);
    assert_eq!(again.len(), 2);
    for batch in &again {
        assert_compressed(batch, &books[1]);
        assert!(batch.body.len() < 1_000, "{} bytes", batch.body.len());
    }
    // The counter has uncompressed bytes.
    assert_eq!(scene.counted("batch_bytes_total.upstream.es-2").await?, 2 * books[1].len() as u64);
    scene.finish().await
}

/// The zone of an Envoy stands in its configuration. If not, it stands in the labels of its pod, if these are known.
#[tokio::test(flavor = "multi_thread")]
async fn batches_for_another_zone_are_compressed() -> Result<()> {
    let labels = json!({"LABELS": {"topology.kubernetes.io/zone": "a"}});
    for node in [json!({"locality": {"zone": "b"}, "metadata": labels}), json!({"metadata": labels})] {
        let own = if node["locality"].is_null() { "a" } else { "b" };
        let script = ClusterScript::three_nodes().zones(&["a", "b"]);
        let in_zone = move |config: &mut Value| {
            config["node"].as_object_mut().unwrap().extend(node.as_object().unwrap().clone());
            Ok(())
        };
        let scene = Scene::of(script).own_envoy().edit(in_zone).start().await?;
        let books = [0, 1, 2].map(|node| lines::large("books", &scene.cluster.book(node, 0).unwrap(), 10_000));
        scene.bulk("/_bulk", books.concat()).await?.ok()?;
        for (node, zone) in ["a", "b", own].into_iter().enumerate() {
            let batch = scene.cluster.only_bulk_at(node)?;
            match zone == own {
                true => assert_eq!((batch.header("content-encoding"), &batch.body[..]), (None, books[node].as_bytes())),
                false => assert_compressed(&batch, &books[node]),
            }
        }
        scene.finish().await?;
    }
    Ok(())
}
