use std::collections::BTreeMap;

use anyhow::Result;
use bulk_reshuffle_e2e::{Step, named_releases, with};
use bulk_reshuffle_stack::Distribution::{self, *};
use fastrand::Rng;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::key::{Key, quoted, text};

type Settings = BTreeMap<String, Map<String, Value>>;
type Pipelines = BTreeMap<String, Value>;

/// One kind of target of operations, and the expected handling by the filter.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kind {
    /// The title of its row.
    pub title: String,
    /// The name in the action lines.
    pub target: String,
    /// Whether the target is a data stream, and operations are for its last backing index.
    pub is_backed: bool,
    /// The releases that support it; if empty, all.
    #[serde(deserialize_with = "named_releases")]
    on: Vec<Distribution>,

    /// The processors of ingest pipelines.
    pipelines: Pipelines,
    /// Those of the releases that have modes of indices, if they differ.
    pipelines_with_modes: Pipelines,
    /// The pattern of a template for indices that bulk requests create.
    template: Option<String>,
    /// A data stream of two indices with different numbers of shards. Its documents have no routing values.
    stream: Option<String>,
    /// The settings of its indices, in addition to [`Step::index`].
    indices: Settings,
    /// The mappings of these indices.
    mappings: Map<String, Value>,
    /// The aliases to add.
    aliases: Vec<Value>,
    /// Further requests.
    steps: Vec<Step>,

    /// The action of the operations, instead of `index`.
    action: Option<String>,
    /// Further parameters in the action lines, as they are written there.
    pub parameters: String,
    /// The query of the bulk requests, with its question mark.
    pub query: String,
    /// The operations that have a routing value: half of them, or none for a data stream.
    routing: Option<Routing>,
    /// The routing value that an alias adds.
    pub added_routing: Option<String>,
    /// Whether operations have no ids.
    pub is_without_ids: bool,
    /// The number of operations to send, instead of 600; 0 if the first one would change the kind.
    operations: Option<usize>,

    expected: Expected,
    /// The expectation on releases whose pipelines may answer in another order, if it differs.
    expected_if_unordered: Option<Expected>,
    /// Whether the id also determines the shard. For a routing value, `_search_shards` then returns all shards of the
    /// partition.
    pub is_partitioned: bool,
    /// The limit of bytes between nodes when requests are routed, in percent of those when they are sent directly,
    /// instead of 10.
    bytes_at_most: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Routing {
    Half,
    All,
    None,
    Fixed(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// Each operation goes to the node of its primary.
    #[default]
    Routed,
    /// The first request passes through and creates the index. After that, each operation goes to its primary's node.
    RoutedOnceMade,
    /// Each operation goes to the node of its primary, which refuses it as any node would.
    Refused,
    /// The table does not route operations, for this reason.
    Unrouted(String),
    /// Requests pass through for this reason, whatever the table says.
    Passed(String),
}

impl Kind {
    /// Returns all kinds of `kinds.yaml`, in the order of the report's rows.
    pub fn all() -> Result<Vec<Self>> {
        /// The file. Its other lists only give names to values.
        #[derive(Deserialize)]
        struct File {
            kinds: Vec<Kind>,
        }
        Ok(serde_saphyr::from_str::<File>(include_str!("kinds.yaml"))?.kinds)
    }

    pub fn is_on(&self, release: Distribution) -> bool {
        self.on.is_empty() || self.on.contains(&release)
    }

    pub fn operations(&self) -> usize {
        self.operations.unwrap_or(600)
    }

    pub fn bytes_at_most(&self) -> f64 {
        self.bytes_at_most.unwrap_or(10.0)
    }

    /// Returns the requests that create it on a release.
    pub fn steps(&self, release: Distribution) -> Vec<Step> {
        let mut pipelines = self.pipelines.clone();
        if matches!(release, Elasticsearch8 | Elasticsearch9) {
            pipelines.extend(self.pipelines_with_modes.clone());
        }
        let mut steps: Vec<_> = pipelines.iter().map(|(name, processors)| Step::pipeline(name, processors)).collect();
        steps.extend(self.template.as_deref().map(|pattern| {
            let template = json!({"settings": {"number_of_shards": 6, "number_of_replicas": 0}});
            let request = format!("PUT /_index_template/{}", pattern.trim_end_matches("-*"));
            Step::new(request, json!({"index_patterns": [pattern], "template": template}))
        }));
        steps.extend(self.stream.iter().flat_map(|name| stream(name)));
        let (unrefreshed, mappings) = (json!({"refresh_interval": -1}), json!(self.mappings));
        steps.extend(self.indices.iter().map(|(name, settings)| {
            let settings = with(unrefreshed.clone(), settings);
            Step::index(name, settings.as_object().expect("settings"), &mappings)
        }));
        if !self.aliases.is_empty() {
            let actions: Value = self.aliases.iter().map(|alias| json!({"add": alias})).collect();
            steps.push(Step::new("POST /_aliases", json!({"actions": actions})));
        }
        steps.extend(self.steps.clone());
        steps
    }

    /// Returns the expected handling on a release.
    pub fn expected(&self, release: Distribution) -> &Expected {
        let orders_items = matches!(release, Elasticsearch7_17 | Elasticsearch8 | Elasticsearch9);
        self.expected_if_unordered.as_ref().filter(|_| !orders_items).unwrap_or(&self.expected)
    }

    /// Returns keys for its operations.
    pub fn keys(&self, rng: &mut Rng, count: usize) -> Vec<Key> {
        let usual = if self.stream.is_some() { Routing::None } else { Routing::Half };
        let routing = self.routing.as_ref().unwrap_or(&usual);
        let mut keys = Key::random(rng, count, |rng| match routing {
            Routing::Half => rng.bool().then(|| text(rng)),
            Routing::All => Some(text(rng)),
            Routing::None => None,
            Routing::Fixed(value) => Some(value.clone()),
        });
        if self.is_without_ids {
            keys.iter_mut().for_each(|key| key.id = None);
        }
        keys
    }

    /// Returns the action line of an operation, with its newline.
    pub fn line(&self, rng: &mut Rng, key: &Key) -> String {
        let action = self.action.as_deref().unwrap_or("index");
        let mut line = format!("{{\"{action}\":{{\"_index\":{}", quoted(rng, &self.target));
        for (name, value) in [("_id", &key.id), ("routing", &key.routing)] {
            if let Some(value) = value {
                line += &format!(",\"{name}\":{}", quoted(rng, value));
            }
        }
        if !self.parameters.is_empty() {
            line += &format!(",{}", self.parameters);
        }
        line + "}}\n"
    }
}

/// Returns the requests that create a data stream.
fn stream(name: &str) -> [Step; 4] {
    let template = |shards| {
        let template = json!({
            "index_patterns": [name], "data_stream": {},
            "template": {
                "settings": {"number_of_shards": shards, "number_of_replicas": 0},
                "mappings": {"properties": {"@timestamp": {"type": "date"}}},
            },
        });
        Step::new(format!("PUT /_index_template/{name}"), template)
    };
    [
        template(4),
        Step::new(format!("PUT /{name}/_create/first"), json!({"@timestamp": "2026-01-01T00:00:00Z"})),
        template(6),
        Step::new(format!("POST /{name}/_rollover"), Value::Null),
    ]
}
