use serde::{Deserialize, Serialize};

/// What is to be simulated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Requests per second, of all clients together.
    pub rate: f64,
    /// Clients. One that waits for its answer sends nothing; what it should have sent it sends then.
    pub clients: u32,
    /// Operations in each request, taken from the body in turn.
    pub operations: u32,
    /// Envoy's worker threads, each with an engine of its own.
    pub workers: u8,
    /// Nodes to which the shards are spread evenly; 0: the cluster's own, with the shards where they are.
    pub nodes: u16,
    /// `hold.interval` in milliseconds.
    pub interval: f64,
    /// `hold.early_release`
    pub early_release: bool,
    /// Milliseconds that a node takes for each batch.
    pub batch_time: f64,
    /// Milliseconds that a node takes for each operation besides.
    pub operation_time: f64,
    /// How many requests come.
    pub requests: u32,
    /// Another one makes another day.
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
    /// The same within what can be simulated in some seconds.
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
