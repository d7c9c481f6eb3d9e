use anyhow::{Result, ensure};
use bulk_reshuffle::bulk::{Answer, ERROR_ROOM, ITEM_ROOM};
use bulk_reshuffle_e2e::{RealScene, Step};
use serde_json::{Value, json};

/// Returns the longest possible id, of characters that JSON escapes.
fn long_id() -> String {
    "\"".repeat(512)
}

/// The lengths of the longest items of a release, without the ids, names and documents in them.
#[derive(Debug, Default)]
pub struct LongestItems {
    success: u64,
    error: u64,
}

/// An operation with its action line and its source, if any.
struct Operation {
    line: String,
    source: String,
}

impl Operation {
    fn new(action: &str, index: &str, id: &str, source: &Value) -> Self {
        let line = json!({action: {"_index": index, "_id": id}}).to_string();
        Self { line, source: if action == "delete" { String::new() } else { format!("{source}\n") } }
    }

    fn lines(&self) -> String {
        format!("{}\n{}", self.line, self.source)
    }
}

/// Returns operations whose successes and failures have the longest items.
fn operations() -> Vec<Operation> {
    let (good, bad) = (json!({"n": 1}), json!({"n": "x".repeat(300)}));
    let mut all = Vec::new();
    for id in ["1".to_owned(), long_id()] {
        for (action, source) in [
            ("create", &good),
            ("index", &good),
            ("create", &good),
            ("update", &json!({"doc": {"n": 2}})),
            ("update", &json!({"doc": {"n": 2}})),
            ("index", &bad),
            ("index", &json!({"unknown": {"of": [1, 2, 3]}})),
            ("update", &json!({"doc": bad})),
            ("delete", &good),
            ("delete", &good),
            ("update", &json!({"doc": {"n": 2}})),
        ] {
            all.push(Operation::new(action, "longest-items", &id, source));
        }
        for index in ["longest-items-closed", "longest-items-blocked", "longest-items-nowhere"] {
            all.push(Operation::new("index", index, &id, &good));
        }
    }
    all
}

impl LongestItems {
    /// Measures the items of a release, and checks that the filter reserves enough room for them.
    pub async fn look(scene: &RealScene) -> Result<String> {
        let (node, strict) =
            (scene.direct(0, "")?, json!({"dynamic": "strict", "properties": {"n": {"type": "long"}}}));
        let nowhere = json!({"settings": {"index.routing.allocation.include._name": "nowhere"}});
        for (request, body) in [
            ("PUT /longest-items", json!({"mappings": strict})),
            ("PUT /longest-items-closed", json!({})),
            ("PUT /longest-items-blocked", json!({"settings": {"index.blocks.write": true}})),
            ("PUT /longest-items-nowhere?wait_for_active_shards=0", nowhere),
            ("POST /longest-items-closed/_close", Value::Null),
        ] {
            Step::new(request, body).take(&scene.client, &node).await?;
        }
        let operations = operations();
        let body: String = operations.iter().map(Operation::lines).collect();
        let answer = scene.client.post_ndjson(&format!("{node}/_bulk?refresh=true&timeout=1s"), body).await?.ok()?;
        let answer = Answer::read(answer.body.to_vec(), operations.len())?;
        ensure!(answer.items.len() == operations.len(), "{} items", answer.items.len());
        let mut longest = Self::default();
        for (item, operation) in answer.items.iter().zip(&operations) {
            longest.add(&String::from_utf8_lossy(answer.text(item)), item.failed, operation)?;
        }
        for index in ["", "-closed", "-blocked", "-nowhere"] {
            Step::new(format!("DELETE /longest-items{index}"), Value::Null).take(&scene.client, &node).await?;
        }
        Ok(format!("{} of {ITEM_ROOM}, errors {} of {ERROR_ROOM}", longest.success, longest.error))
    }

    fn add(&mut self, item: &str, failed: bool, operation: &Operation) -> Result<()> {
        let (line, all) = (operation.line.len() as u64, operation.lines().len() as u64);
        let (longest, own, room) = match failed {
            true => (&mut self.error, 2 * all, ERROR_ROOM),
            false => (&mut self.success, line, ITEM_ROOM),
        };
        let more = (item.len() as u64).saturating_sub(own);
        ensure!(
            more <= room,
            "the filter reserves {room} bytes in addition to the operation's own, but the item needs {more}: {item}"
        );
        *longest = (*longest).max(more);
        Ok(())
    }
}
