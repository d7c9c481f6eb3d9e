use serde::{Deserialize, Serialize};

/// The settings of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The requests per second of all clients together.
    pub rate: f64,
    /// The number of clients. A client that waits for an answer sends its next request after that answer.
    pub clients: u32,
    /// The number of operations in each request, taken from the body round robin.
    pub operations: u32,
    /// The number of Envoy's worker threads, each with a separate engine.
    pub workers: u8,
    /// The number of nodes over which the shards are spread evenly; 0 keeps the cluster's own nodes and shards.
    pub nodes: u16,
    /// The value of `hold.interval`, in milliseconds.
    pub interval: f64,
    /// The value of `hold.early_release`.
    pub early_release: bool,
    /// The fixed time of each batch at a node, in milliseconds.
    pub batch_time: f64,
    /// The additional time of each operation at a node, in milliseconds.
    pub operation_time: f64,
    /// The number of requests.
    pub requests: u32,
    /// The seed of the random numbers. Another seed gives another run.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rate: 3000.0,
            clients: 256,
            operations: 2,
            workers: 2,
            nodes: 0,
            interval: 50.0,
            early_release: true,
            batch_time: 1.0,
            operation_time: 0.02,
            requests: 5000,
            seed: 1,
        }
    }
}

impl Settings {
    /// Returns the settings within bounds that can be simulated in some seconds.
    pub fn bounded(&self) -> Self {
        let number =
            |value: f64, least: f64, most: f64| if value.is_finite() { value.clamp(least, most) } else { least };
        Self {
            rate: number(self.rate, 0.1, 100_000.0),
            clients: self.clients.clamp(1, 10_000),
            operations: self.operations.clamp(1, 10_000),
            workers: self.workers.clamp(1, 32),
            nodes: self.nodes.min(500),
            interval: number(self.interval, 1.0, 60_000.0),
            batch_time: number(self.batch_time, 0.0, 10_000.0),
            operation_time: number(self.operation_time, 0.0, 1_000.0),
            requests: self.requests.clamp(1, 50_000).min((2_000_000 / self.operations.clamp(1, 10_000)).max(1)),
            ..self.clone()
        }
    }
}
