//! The JavaScript interface. Values are passed as JSON; the package's own files declare their types.

use js_sys::JSON;
use serde::Serialize;
use wasm_bindgen::prelude::{JsError, JsValue, wasm_bindgen};

use crate::cluster::Cluster;
use crate::{sample, simulation};

/// A cluster that is described by its state, for any number of calls.
#[wasm_bindgen(js_name = RawCluster)]
#[derive(Debug)]
pub struct JavaScriptCluster(Cluster);

#[wasm_bindgen(js_class = RawCluster)]
impl JavaScriptCluster {
    /// Reads a cluster's state and the filter's configuration, both as JSON. The configuration may be empty.
    #[wasm_bindgen(constructor)]
    pub fn new(state: &str, config: &str) -> Result<JavaScriptCluster, JsError> {
        Ok(Self(Cluster::new(state, config)?))
    }

    /// Returns the cluster's nodes, each with its upstream.
    pub fn nodes(&self) -> Result<JsValue, JsError> {
        #[derive(Serialize)]
        struct Node {
            id: String,
            name: String,
            upstream: Option<String>,
        }
        let nodes = self.0.nodes().into_iter();
        let nodes = nodes.map(|(node, upstream)| Node { id: node.id, name: node.name, upstream });
        value(&nodes.collect::<Vec<_>>())
    }

    /// Returns the location of a document.
    #[wasm_bindgen(js_name = shardOf)]
    pub fn shard_of(&self, index: &str, id: Option<String>, routing: Option<String>) -> Result<JsValue, JsError> {
        value(&self.0.place(index, id.as_deref(), routing.as_deref())?)
    }

    /// Explains the handling of a request.
    pub fn explain(&self, body: &[u8], path: &str, listed: usize) -> Result<JsValue, JsError> {
        value(&self.0.explain(path, body, listed)?)
    }

    /// Returns what a request forwards between the nodes.
    pub fn forwarding(&self, body: &[u8], path: &str) -> Result<JsValue, JsError> {
        let explanation = self.0.explain(path, body, 0)?;
        value(&self.0.forwarding(&explanation))
    }

    /// Simulates many requests that consist of a body's operations.
    pub fn simulate(&self, body: &[u8], path: &str, settings: &str) -> Result<JsValue, JsError> {
        let settings = serde_json::from_str(settings).map_err(|error| JsError::new(&format!("settings: {error}")))?;
        value(&simulation::simulate(&self.0, path, body, &settings)?)
    }
}

/// Returns a sample of a cluster's state.
#[wasm_bindgen(js_name = sampleState)]
pub fn sample_state() -> String {
    sample::state()
}

/// Returns a sample bulk body for that state.
#[wasm_bindgen(js_name = sampleBody)]
pub fn sample_body() -> String {
    sample::body()
}

fn value(of: &impl Serialize) -> Result<JsValue, JsError> {
    let text = serde_json::to_string(of)?;
    JSON::parse(&text).map_err(|_| JsError::new("the result is not JSON"))
}
