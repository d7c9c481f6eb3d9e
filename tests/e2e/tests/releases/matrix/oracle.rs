//! The locations of documents as the cluster reports them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::RealScene;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::key::Key;
use super::routes::Place;

/// The limit of routing values in one request, in bytes.
const LIMIT: usize = 50_000;

/// A key and the place to which the filter routes its operation.
pub type Placed = (Key, Place);

/// Compares places with the answers of `_search_shards` for their routing values. Returns how many were not confirmed.
///
/// `added` is the routing value that an alias adds. For several values at once, the cluster returns the shards of all
/// of them. If there is only one shard, it is that of each value.
pub async fn unconfirmed(scene: &RealScene, index: &str, added: Option<&str>, placed: &[Placed]) -> Result<usize> {
    let mut by_place: BTreeMap<(u64, &str), Vec<String>> = BTreeMap::new();
    for (key, place) in placed {
        let value = key.routing.as_deref().or(added).or(key.id.as_deref()).context("nothing to route by")?;
        // The cluster treats a comma as a separator of values.
        if !value.contains(',') {
            let encoded = utf8_percent_encode(value, NON_ALPHANUMERIC).to_string();
            by_place.entry((place.shard, &place.node)).or_default().push(encoded);
        }
    }
    let mut wrong = 0;
    for ((shard, node), values) in by_place {
        for values in portions(&values) {
            if !is_at(scene, index, values, shard, node).await? {
                for value in values {
                    wrong += usize::from(!is_at(scene, index, std::slice::from_ref(value), shard, node).await?);
                }
            }
        }
    }
    Ok(wrong)
}

async fn is_at(scene: &RealScene, index: &str, values: &[String], shard: u64, node: &str) -> Result<bool> {
    let named = primaries(scene, &format!("/{index}/_search_shards?routing={}", values.join(","))).await?;
    Ok(named == BTreeMap::from([(shard, node.to_owned())]))
}

/// Returns the node of each primary in an answer of `_search_shards`.
async fn primaries(scene: &RealScene, path: &str) -> Result<BTreeMap<u64, String>> {
    let found = scene.get(path).await?;
    let copies = found["shards"].as_array().context("no shards")?.iter().filter_map(Value::as_array).flatten();
    let primary = |copy: &Value| {
        let node = copy["node"].as_str()?;
        Some((copy["shard"].as_u64()?, found["nodes"][node]["name"].as_str()?.to_owned()))
    };
    Ok(copies.filter(|copy| copy["primary"] == true).filter_map(primary).collect())
}

/// Splits texts into slices with a total length of at most [`LIMIT`] each.
fn portions(texts: &[String]) -> Vec<&[String]> {
    let mut portions = Vec::new();
    let (mut start, mut length) = (0, 0);
    for (at, text) in texts.iter().enumerate() {
        length += text.len() + 1;
        if length > LIMIT {
            portions.push(&texts[start..at]);
            (start, length) = (at, text.len() + 1);
        }
    }
    portions.push(&texts[start..]);
    portions
}

/// Compares places with the shards in which the documents are found. Returns how many are in another shard.
pub async fn misplaced(scene: &RealScene, index: &str, placed: &[Placed]) -> Result<usize> {
    scene.client.get(&scene.direct(0, &format!("/{index}/_refresh"))?).await?.ok()?;
    let primaries = primaries(scene, &format!("/{index}/_search_shards")).await?;
    let mut found = BTreeMap::new();
    for (shard, node) in &primaries {
        let url = scene.direct(0, &format!("/{index}/_search?preference=_shards:{shard}"))?;
        let all = json!({"size": 10_000, "_source": false, "query": {"match_all": {}}, "sort": ["_doc"]});
        let answer = scene.client.post_json(&url, &all).await?.ok()?.json()?;
        for hit in answer["hits"]["hits"].as_array().context("no hits")? {
            let id = hit["_id"].as_str().context("no id")?.to_owned();
            found.insert(id, Place { shard: *shard, node: node.clone() });
        }
    }
    ensure!(found.len() >= placed.len(), "{} of {} documents in {index}", found.len(), placed.len());
    let is_elsewhere = |(key, place): &&Placed| key.id.as_ref().and_then(|id| found.get(id)) != Some(place);
    Ok(placed.iter().filter(is_elsewhere).count())
}
