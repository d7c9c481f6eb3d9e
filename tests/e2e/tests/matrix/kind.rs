use bulk_reshuffle_stack::Distribution;
use fastrand::Rng;
use hyper::Method;
use serde_json::{Value, json};

use crate::key::{Key, quoted, text};

/// One kind of target of operations, and the expected handling by the filter.
#[derive(Debug, Clone)]
pub struct Kind {
    /// The title of its row.
    pub title: &'static str,
    /// The name in the action lines.
    pub target: String,
    /// Whether the target is a data stream, and operations are for its last backing index.
    pub is_backed: bool,
    /// The requests that create it.
    pub steps: Vec<Step>,
    /// The action of the operations.
    pub action: &'static str,
    /// Further parameters in the action lines.
    pub parameters: &'static str,
    /// The query of the bulk requests.
    pub query: &'static str,
    /// The operations that have a routing value.
    pub routing: Routing,
    /// The routing value that an alias adds.
    pub added_routing: Option<&'static str>,
    /// Whether operations have ids.
    pub has_ids: bool,
    pub expected: Expected,
    /// Whether a routing value alone determines the shard, so that `_search_shards` confirms it.
    pub by_routing: bool,
    /// The number of operations to send; 0 if the first one would change the kind.
    pub operations: usize,
    /// The limit of bytes between nodes when requests are routed, in percent of those when they are sent directly.
    pub bytes_at_most: f64,
    /// The distributions that support it.
    pub on: fn(Distribution) -> bool,
}

/// A request that prepares a kind, and must succeed.
#[derive(Debug, Clone)]
pub struct Step {
    pub method: Method,
    pub path: String,
    pub body: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    Half,
    All,
    None,
    Fixed(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Each operation goes to the node of its primary.
    Routed,
    /// The first request passes through and creates the index. After that, each operation goes to its primary's node.
    RoutedOnceMade,
    /// Each operation goes to the node of its primary, which refuses it as any node would.
    Refused,
    /// The table does not route operations, for this reason.
    Unrouted(&'static str),
    /// Requests pass through for this reason, whatever the table says.
    Passed(&'static str),
}

impl Kind {
    /// Creates a kind whose operations are `index` with ids, half of them with a routing value, and are to be routed.
    pub fn new(title: &'static str, target: impl Into<String>) -> Self {
        Self {
            title,
            target: target.into(),
            is_backed: false,
            steps: Vec::new(),
            action: "index",
            parameters: "",
            query: "",
            routing: Routing::Half,
            added_routing: None,
            has_ids: true,
            expected: Expected::Routed,
            by_routing: true,
            operations: 600,
            bytes_at_most: 10.0,
            on: |_| true,
        }
    }

    /// Adds a request that prepares the kind.
    pub fn step(mut self, method: Method, path: impl Into<String>, body: Value) -> Self {
        self.steps.push(Step { method, path: path.into(), body });
        self
    }

    /// Adds an index of six shards without replicas; these settings override its own.
    pub fn index(self, name: &str, settings: Value) -> Self {
        self.mapped_index(name, settings, json!({}))
    }

    /// Adds an index like [`index`](Self::index), with these mappings.
    pub fn mapped_index(self, name: &str, settings: Value, mappings: Value) -> Self {
        let body = json!({"settings": with(six_shards(), settings), "mappings": mappings});
        self.step(Method::PUT, format!("/{name}"), body)
    }

    /// Adds an alias of an index.
    pub fn alias(self, index: &str, alias: &str, details: Value) -> Self {
        let add = with(json!({"index": index, "alias": alias}), details);
        self.step(Method::POST, "/_aliases", json!({"actions": [{"add": add}]}))
    }

    /// Sets the name in the action lines.
    pub fn named(self, target: &str) -> Self {
        Self { target: target.to_owned(), ..self }
    }

    pub fn expect(self, expected: Expected) -> Self {
        Self { expected, ..self }
    }

    pub fn routing(self, routing: Routing) -> Self {
        Self { routing, ..self }
    }

    pub fn only_on(self, on: fn(Distribution) -> bool) -> Self {
        Self { on, ..self }
    }

    /// Returns keys for its operations.
    pub fn keys(&self, rng: &mut Rng, count: usize) -> Vec<Key> {
        let mut keys = Key::random(rng, count, |rng| match self.routing {
            Routing::Half => rng.bool().then(|| text(rng)),
            Routing::All => Some(text(rng)),
            Routing::None => None,
            Routing::Fixed(value) => Some(value.to_owned()),
        });
        if !self.has_ids {
            keys.iter_mut().for_each(|key| key.id = None);
        }
        keys
    }

    /// Returns the action line of an operation, with its newline.
    pub fn line(&self, rng: &mut Rng, key: &Key) -> String {
        let mut line = format!("{{\"{}\":{{\"_index\":{}", self.action, quoted(rng, &self.target));
        for (name, value) in [("_id", &key.id), ("routing", &key.routing)] {
            if let Some(value) = value {
                line += &format!(",\"{name}\":{}", quoted(rng, value));
            }
        }
        line + self.parameters + "}}\n"
    }
}

fn six_shards() -> Value {
    json!({"number_of_shards": 6, "number_of_replicas": 0, "refresh_interval": -1})
}

/// Returns an object with the fields of another one added or replaced.
pub fn with(mut object: Value, fields: Value) -> Value {
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
    }
    object
}
