use anyhow::{Context, Result};
use bulk_reshuffle_stack::Client;
use bytes::Bytes;
use hyper::Request;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A request that prepares a cluster, and must succeed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The method and the path, separated by a space.
    request: String,
    /// The JSON body; null if there is none.
    #[serde(default)]
    body: Value,
}

impl Step {
    /// Creates a step from the method and the path, separated by a space, and the JSON body, or null.
    pub fn new(request: impl Into<String>, body: Value) -> Self {
        Self { request: request.into(), body }
    }

    /// Returns the step that creates an ingest pipeline.
    pub fn pipeline(name: &str, processors: &Value) -> Self {
        Self::new(format!("PUT /_ingest/pipeline/{name}"), json!({"processors": processors}))
    }

    /// Returns the step that creates an index of six shards without replicas; these settings override its own.
    pub fn index(name: &str, settings: &Map<String, Value>, mappings: &Value) -> Self {
        let settings = with(json!({"number_of_shards": 6, "number_of_replicas": 0}), settings);
        Self::new(format!("PUT /{name}"), json!({"settings": settings, "mappings": mappings}))
    }

    /// Sends the request to the node at this URL.
    pub async fn take(&self, client: &Client, node: &str) -> Result<()> {
        let (method, path) = self.request.split_once(' ').context("a step needs a method and a path")?;
        let request = Request::builder()
            .method(method)
            .uri(format!("{node}{path}"))
            .header("content-type", "application/json")
            .body(if self.body.is_null() { Bytes::new() } else { self.body.to_string().into() })?;
        client.send(request).await?.ok().with_context(|| self.request.clone()).map(|_| ())
    }
}

/// Returns an object with these fields added or replaced.
pub fn with(mut object: Value, fields: &Map<String, Value>) -> Value {
    if let Some(object) = object.as_object_mut() {
        object.extend(fields.clone());
    }
    object
}

/// Returns the index that a data stream writes to, as the node at this URL reports it.
pub async fn last_index(client: &Client, node: &str, stream: &str) -> Result<String> {
    let path = "/_cluster/state/metadata?filter_path=metadata.data_stream";
    let state = client.get_json(&format!("{node}{path}")).await?;
    let indices = &state["metadata"]["data_stream"]["data_stream"][stream]["indices"];
    let last = indices.as_array().and_then(|indices| indices.last()?["index_name"].as_str());
    Ok(last.context("there is no such data stream")?.to_owned())
}
