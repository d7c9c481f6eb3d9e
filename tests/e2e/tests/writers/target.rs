use hyper::Method;
use serde_json::{Value, json};

/// A request that prepares a cluster, and must succeed.
#[derive(Debug, Clone)]
pub struct Step {
    pub method: Method,
    pub path: String,
    pub body: Value,
}

impl Step {
    pub fn put(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::PUT, path: path.into(), body }
    }

    fn post(self) -> Self {
        Self { method: Method::POST, ..self }
    }
}

/// An index or a data stream that a writer writes to.
#[derive(Debug, Clone)]
pub struct Target {
    /// The name by which its documents are found.
    pub name: String,
    /// The requests that prepare pipelines and templates, once.
    pub prepared: Vec<Step>,
    /// The requests that create it, before each run.
    pub created: Vec<Step>,
    /// Whether it is a data stream. Each run then writes to a new index of it, because the distributions for tests
    /// cannot delete a data stream.
    pub is_stream: bool,
}

fn six_shards() -> Value {
    json!({"number_of_shards": 6, "number_of_replicas": 0})
}

impl Target {
    /// Returns an index of six shards.
    pub fn index(name: &str) -> Self {
        Self::index_with(name, json!({}), json!({}))
    }

    /// Returns an index of six shards, with these settings and mappings.
    pub fn index_with(name: &str, settings: Value, mappings: Value) -> Self {
        let settings = merged(six_shards(), settings);
        Self {
            name: name.to_owned(),
            prepared: Vec::new(),
            created: vec![Step::put(format!("/{name}"), json!({"settings": settings, "mappings": mappings}))],
            is_stream: false,
        }
    }

    /// Returns a data stream whose indices have six shards and these settings.
    pub fn stream(name: &str, settings: Value) -> Self {
        Self::stream_with(name, settings, json!([]))
    }

    /// Returns a data stream like [`stream`](Self::stream), with these dynamic templates.
    pub fn stream_with(name: &str, settings: Value, dynamic_templates: Value) -> Self {
        let settings = merged(six_shards(), settings);
        let template = json!({
            "index_patterns": [name], "data_stream": {}, "priority": 500,
            "template": {"settings": settings, "mappings": {
                "properties": {"@timestamp": {"type": "date"}}, "dynamic_templates": dynamic_templates,
            }},
        });
        Self {
            name: name.to_owned(),
            prepared: vec![Step::put(format!("/_index_template/{name}"), template)],
            created: vec![
                Step::put(format!("/{name}/_doc?op_type=create"), json!({"@timestamp": "2026-01-01T00:00:00Z"})).post(),
                Step::put(format!("/{name}/_rollover"), Value::Null).post(),
            ],
            is_stream: true,
        }
    }

    /// Adds an alias of the index that writers use instead.
    pub fn alias(mut self, alias: &str) -> Self {
        let add = json!({"add": {"index": self.name, "alias": alias, "is_write_index": true}});
        self.created.push(Step::put("/_aliases", json!({"actions": [add]})).post());
        self
    }

    /// Adds an ingest pipeline.
    pub fn pipeline(mut self, name: &str, processors: Value) -> Self {
        // Templates may name it, so it comes first.
        self.prepared.insert(0, Step::put(format!("/_ingest/pipeline/{name}"), json!({"processors": processors})));
        self
    }
}

fn merged(mut object: Value, fields: Value) -> Value {
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
    }
    object
}
