//! The same operations sent to the nodes and through the filter.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use bulk_reshuffle_e2e::{RealScene, transport_bytes};
use fastrand::Rng;
use serde_json::Value;

use super::key::Key;
use super::kind::Kind;

/// Requests that can be sent repeatedly, the same number to each node.
#[derive(Debug)]
pub struct Requests {
    target: String,
    has_ids: bool,
    has_versions: bool,
    bodies: Vec<String>,
}

/// The result of these requests.
#[derive(Debug)]
pub struct Sent {
    /// The number of bytes that crossed between nodes.
    pub bytes: u64,
    /// Whether the operations have ids. Ids that the cluster generates differ.
    has_ids: bool,
    /// Whether the operations give the versions of their documents.
    has_versions: bool,
    answers: Vec<Value>,
}

const REQUESTS: usize = 6;

impl Requests {
    /// Creates requests whose documents have a text of this many random characters, which hardly compresses.
    pub fn new(rng: &mut Rng, kind: &Kind, keys: &[Key], text: usize) -> Self {
        let mut bodies = vec![String::new(); REQUESTS];
        for (number, key) in keys.iter().enumerate() {
            let text: String = (0..text).map(|_| rng.alphanumeric()).collect();
            let (minutes, seconds) = (number / 60 % 60, number % 60);
            let (hours, line) = (number / 3600, kind.line(rng, key));
            bodies[number * REQUESTS / keys.len()] += &format!(
                "{line}{{\"@timestamp\":\"2026-11-20T{hours:02}:{minutes:02}:{seconds:02}Z\",\"host\":\"{}\",\
                 \"n\":{number},\"text\":\"{text}\"}}\n",
                ["a", "b", "c", "d"][number % 4]
            );
        }
        Self {
            target: format!("/_bulk{}", kind.query),
            has_ids: !kind.is_without_ids,
            has_versions: kind.parameters.contains("external"),
            bodies,
        }
    }

    /// Sends the requests directly, to the nodes by round robin.
    pub async fn direct(&self, scene: &RealScene) -> Result<Sent> {
        self.send(scene, |number| scene.direct(number, &self.target)).await
    }

    /// Sends the requests through the filter.
    pub async fn through_the_filter(&self, scene: &RealScene) -> Result<Sent> {
        self.send(scene, |_| Ok(scene.envoy.url(&self.target))).await
    }

    async fn send(&self, scene: &RealScene, url: impl Fn(usize) -> Result<String>) -> Result<Sent> {
        let bytes = async || transport_bytes(&scene.client, &scene.direct(0, "")?).await;
        let before = bytes().await?;
        let mut answers = Vec::new();
        for (number, body) in self.bodies.iter().enumerate() {
            answers.push(scene.client.post_ndjson(&url(number)?, body.clone()).await?.ok()?.json()?);
        }
        Ok(Sent { bytes: bytes().await? - before, has_ids: self.has_ids, has_versions: self.has_versions, answers })
    }
}

impl Sent {
    /// Returns the index of all documents, or an error if there are several.
    pub fn index(&self) -> Result<String> {
        let mut indices = BTreeMap::<&str, usize>::new();
        for item in self.items() {
            ensure!(item["status"] == 201, "{item}");
            *indices.entry(item["_index"].as_str().context("no index")?).or_default() += 1;
        }
        match indices.into_keys().collect::<Vec<_>>().as_slice() {
            [index] => Ok((*index).to_owned()),
            indices => bail!("documents in {indices:?}"),
        }
    }

    /// Returns an error if the same requests, sent later, were answered differently. Only sequence numbers and times
    /// may differ, and an updated document has the next version, unless the operation gives it.
    pub fn check_alike(&self, later: &Self) -> Result<()> {
        let (first, second): (Vec<&Value>, Vec<&Value>) = (self.items().collect(), later.items().collect());
        ensure!(first.len() == second.len(), "{} items and {}", first.len(), second.len());
        for (first, second) in first.into_iter().zip(second) {
            let (mut expected, mut found) = (first.clone(), second.clone());
            if let (Some(version), Some("updated")) = (first["_version"].as_u64(), first["result"].as_str()) {
                expected["_version"] = (version + u64::from(!self.has_versions)).into();
            }
            for item in [&mut expected, &mut found] {
                let item = item.as_object_mut().context("not an item")?;
                item.remove("_seq_no");
                if !self.has_ids {
                    item.remove("_id");
                }
            }
            ensure!(expected == found, "expected {expected}, found {found}");
        }
        let errors = |sent: &Self| sent.answers.iter().map(|answer| answer["errors"].clone()).collect::<Vec<_>>();
        ensure!(errors(self) == errors(later), "errors differ");
        Ok(())
    }

    /// Returns the items without their actions.
    fn items(&self) -> impl Iterator<Item = &Value> {
        let items = self.answers.iter().filter_map(|answer| answer["items"].as_array()).flatten();
        items.filter_map(|item| item.as_object()?.values().next())
    }
}
