use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::load::{Load, Writer};
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::fault_scene::{FaultScene, Plan};

const REFRESH: Duration = Duration::from_secs(1);

impl FaultScene {
    /// Prints how long operations were misrouted after a change that was made just now.
    async fn print_misrouted(&self, load: &Load, what: &str) -> Result<()> {
        let changed = Instant::now();
        let last = self.misrouted_after(load, changed, REFRESH).await?;
        let (all, wrong) = self.witness()?.since(&load.index, changed);
        println!("freshness, {what}: {wrong} of {all} operations were misrouted, until {last:.1?} after it");
        Ok(())
    }

    /// Ends a load in which no operation may have failed.
    async fn verify_all(&self, load: Load) -> Result<()> {
        self.verify(vec![load]).await?.iter().try_for_each(|tally| tally.check(&[]))
    }

    async fn routed(&self, load: Load) -> Result<Load> {
        self.wait_routed(&load.index).await?;
        Ok(load)
    }

    /// Starts a load that only adds documents.
    fn appending(&self, name: &str) -> Load {
        Load::start(name, self.writers(name, "").map(Writer::appending))
    }

    async fn count(&self, index: &str) -> Result<u64> {
        let count = self.backend.get(&format!("/{index}/_count")).await?;
        count["count"].as_u64().context("no count")
    }
}

impl Backend {
    /// Returns the UUID of the cluster and the version of its state.
    async fn version(&self) -> Result<(String, u64)> {
        let state = self.get("/_cluster/state/version").await?;
        let uuid = state["cluster_uuid"].as_str().context("no uuid")?;
        Ok((uuid.to_owned(), state["version"].as_u64().context("no version")?))
    }
}

fn plan() -> Plan {
    Plan::new("freshness").config("cluster_state", json!({"refresh": "1s"})).witnessed()
}

fn flip(alias: &str, from: Value, to: Value) -> Value {
    let with_alias = |mut action: Value| {
        action.as_object_mut().unwrap().values_mut().for_each(|details| details["alias"] = alias.into());
        action
    };
    json!({"actions": [with_alias(from), with_alias(to)]})
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_follow_an_index_that_is_recreated_with_other_shards() -> Result<()> {
    let scene = plan().index("recreated", json!({"number_of_shards": 3})).start().await?;
    let load = scene.routed(scene.load("recreated", "")).await?;
    scene.verify_all(load).await?;
    scene.backend.delete("/recreated").await?;
    scene.backend.make_index("recreated", &json!({"number_of_shards": 5})).await?;
    let mut load = scene.load("recreated", "");
    scene.print_misrouted(&load, "recreated with other shards").await?;
    load.rate().await?;
    scene.verify_all(load).await?;
    scene.stop(REFRESH).await
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_follow_an_index_that_is_split_under_its_alias() -> Result<()> {
    let source = json!({"number_of_shards": 2, "number_of_routing_shards": 24});
    let scene = plan().index("source", source).start().await?;
    scene.backend.post("/_aliases", json!({"actions": [{"add": {"index": "source", "alias": "written"}}]})).await?;
    let load = scene.routed(scene.load("written", "")).await?;
    let pause = load.pause().await;
    scene.backend.put("/source/_settings", json!({"index.blocks.write": true})).await?;
    let settings = json!({"settings": {"index.number_of_shards": 6, "index.blocks.write": null}});
    scene.backend.post("/source/_split/target", settings).await?;
    scene.backend.wait_green().await?;
    let (from, to) = (json!({"remove": {"index": "source"}}), json!({"add": {"index": "target"}}));
    scene.backend.post("/_aliases", flip("written", from, to)).await?;
    drop(pause);
    scene.print_misrouted(&load, "split under its alias").await?;
    scene.verify_all(load).await?;
    ensure!(scene.count("target").await? > scene.count("source").await?, "nothing was written to the target");
    scene.backend.delete("/target").await?;
    scene.stop(REFRESH).await
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_follow_a_flipped_alias_and_a_rolled_over_data_stream() -> Result<()> {
    let scene = plan().index("old", json!({})).index("new", json!({"number_of_shards": 4})).start().await?;
    let add = |index: &str, is_write_index: bool| json!({"add": {"index": index, "is_write_index": is_write_index}});
    scene.backend.post("/_aliases", flip("flipped", add("old", true), add("new", false))).await?;
    let load = scene.routed(scene.appending("flipped")).await?;
    scene.backend.post("/_aliases", flip("flipped", add("old", false), add("new", true))).await?;
    scene.print_misrouted(&load, "an alias flipped").await?;
    scene.verify_all(load).await?;
    ensure!(scene.count("old").await? > 0 && scene.count("new").await? > 0, "an index has no documents");

    let settings = json!({"number_of_shards": 3, "number_of_replicas": 0, "refresh_interval": -1});
    let template = json!({"index_patterns": ["stream"], "data_stream": {}, "template": {"settings": settings}});
    scene.backend.put("/_index_template/stream", template).await?;
    scene.backend.put("/_data_stream/stream", Value::Null).await?;
    let load = scene.routed(scene.appending("stream")).await?;
    scene.backend.post("/stream/_rollover", json!({})).await?;
    scene.print_misrouted(&load, "a data stream rolled over").await?;
    scene.verify_all(load).await?;
    for generation in ["000001", "000002"] {
        ensure!(
            scene.count(&format!(".ds-stream-{generation}")).await? > 0,
            "generation {generation} has no documents"
        );
    }
    scene.backend.delete("/_data_stream/stream").await?;
    scene.stop(REFRESH).await
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_follow_another_cluster_with_a_lower_version_in_the_same_place() -> Result<()> {
    let mut scene = plan().alone().index("reborn", json!({"number_of_shards": 4})).start().await?;
    let other = Backend::shared_too().await?;
    // Raise the version above that of the other cluster, which other tests raise meanwhile.
    for number in 0.. {
        if scene.backend.version().await?.1 > other.version().await?.1 + 100 {
            break;
        }
        for number in number * 20..(number + 1) * 20 {
            scene.backend.set(json!({"cluster.metadata.number": number.to_string()})).await?;
        }
    }
    let load = scene.routed(scene.load("reborn", "")).await?;
    scene.verify_all(load).await?;
    let (uuid, version) = scene.backend.version().await?;

    let first = scene.replace_cluster(other).await?;
    scene.backend.make_index("reborn", &json!({})).await?;
    let mut load = scene.load("reborn", "");
    let (other_uuid, lower_version) = scene.backend.version().await?;
    ensure!(other_uuid != uuid && lower_version < version, "version {lower_version} after {version}");
    scene.print_misrouted(&load, "another cluster in its place").await?;
    load.rate().await?;
    scene.verify_all(load).await?;
    first.end().await?;
    scene.stop(REFRESH).await
}
