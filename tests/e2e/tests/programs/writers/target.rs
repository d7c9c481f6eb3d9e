use std::collections::BTreeMap;

use bulk_reshuffle_e2e::{Step, with};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// An index of six shards, or a data stream of such indices, that a writer writes to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The name by which its documents are found.
    pub name: String,
    /// Whether it is a data stream. Each run then writes to a new index of it, because the distributions for tests
    /// cannot delete a data stream.
    #[serde(default)]
    pub is_stream: bool,
    #[serde(default)]
    settings: Map<String, Value>,
    #[serde(default)]
    mappings: Map<String, Value>,
    /// An alias of the index that writers use instead.
    alias: Option<String>,
    /// The processors of ingest pipelines.
    #[serde(default)]
    pipelines: BTreeMap<String, Value>,
}

impl Target {
    /// Returns the requests that prepare pipelines and the template of a data stream, once.
    pub fn prepared(&self) -> Vec<Step> {
        // The template may name pipelines, so they come first.
        let pipelines = self.pipelines.iter().map(|(name, processors)| Step::pipeline(name, processors));
        pipelines.chain(self.is_stream.then(|| self.template())).collect()
    }

    fn template(&self) -> Step {
        let settings = with(json!({"number_of_shards": 6, "number_of_replicas": 0}), &self.settings);
        let mappings = with(json!({"properties": {"@timestamp": {"type": "date"}}}), &self.mappings);
        let template = json!({
            "index_patterns": [self.name], "data_stream": {}, "priority": 500,
            "template": {"settings": settings, "mappings": mappings},
        });
        Step::new(format!("PUT /_index_template/{}", self.name), template)
    }

    /// Returns the requests that create it, before each run.
    pub fn created(&self) -> Vec<Step> {
        let name = &self.name;
        if self.is_stream {
            let first = json!({"@timestamp": "2026-01-01T00:00:00Z"});
            return vec![
                Step::new(format!("POST /{name}/_doc?op_type=create"), first),
                Step::new(format!("POST /{name}/_rollover"), Value::Null),
            ];
        }
        let alias = self.alias.as_ref().map(|alias| {
            let add = json!({"add": {"index": name, "alias": alias, "is_write_index": true}});
            Step::new("POST /_aliases", json!({"actions": [add]}))
        });
        let index = Step::index(name, &self.settings, &json!(self.mappings));
        [index].into_iter().chain(alias).collect()
    }
}
