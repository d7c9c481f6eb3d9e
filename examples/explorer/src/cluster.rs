//! A cluster that is described by its state, and requests to it.

use std::time::Duration;

use bulk_reshuffle::Time;
use bulk_reshuffle::bulk::Inflater;
use bulk_reshuffle::config::{Config, ConfigError, NodeUpstreams};
use bulk_reshuffle::engine::{
    Command, Engine, ExplainedOperation, Explanation, Input, NodeName, Origin, RequestId, Response, Why,
};
use bulk_reshuffle::routing::{Choice, NameKind, Snapshot, SnapshotError, Unshared, hash};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::forwarding::Forwarding;

/// A cluster that is described by its state, behind an engine that has loaded that state.
#[derive(Debug)]
pub struct Cluster {
    engine: Engine,
    snapshot: Snapshot,
    config: Config,
}

/// The location of a document.
#[derive(Debug, Serialize)]
pub struct Place {
    /// The write index.
    pub index: String,
    /// The kind of the name.
    pub kind: NameKind,
    /// The number of the shard.
    pub shard: u32,
    /// The node with the shard's started primary, if any.
    pub node: Option<NodeName>,
    /// The steps of the shard's calculation.
    pub choice: Choice,
}

/// An invalid input.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The cluster's state is invalid.
    #[error(transparent)]
    State(#[from] SnapshotError),
    /// The filter's configuration is invalid.
    #[error("the filter's configuration: {0}")]
    Config(#[from] ConfigError),
    /// The configuration is not a JSON object.
    #[error("the filter's configuration is not a JSON object")]
    NoObject,
    /// The engine cannot build a routing table from the state.
    #[error("cannot build a routing table from this cluster state: {0}")]
    Table(String),
    /// The path is not a bulk request's.
    #[error("{0} is not the path of a bulk request: expected /_bulk or /{{index}}/_bulk")]
    Path(String),
    /// The document cannot be routed.
    #[error("{name}: {} ({})", why.text, why.reason)]
    Unrouted {
        /// The given name.
        name: String,
        /// The reason.
        why: Why,
    },
    /// The document has neither an id nor a routing value, so the cluster chooses its shard.
    #[error("without an id and a routing value, the cluster chooses the shard")]
    NoId,
    /// The body has no valid operation.
    #[error("the body has no operation that the filter understands")]
    NoOperation,
}

/// The origin of generated ids, with a fixed time.
const ORIGIN: Origin = Origin { since_epoch: Duration::from_secs(1_700_000_000), vm: *b"explo\0" };

/// A limit on the steps of loading a state. A state takes one step for every few hundred kilobytes, so far fewer.
const STEPS: usize = 100_000;

impl Cluster {
    /// Creates a cluster with a state, behind a filter with a configuration, in which `coordinator` is optional.
    pub fn new(state: &str, config: &str) -> Result<Self, Unusable> {
        let config = read_config(config)?;
        let snapshot = Snapshot::read(state.as_bytes())?;
        let engine = engine(&config, &snapshot, ORIGIN)?;
        Ok(Self { engine, snapshot, config })
    }

    /// Creates the engine of another worker, with another configuration, in front of the same cluster.
    pub fn engine(&self, config: &Config, worker: u8) -> Result<Engine, Unusable> {
        engine(config, &self.snapshot, Origin { vm: [b'e', b'x', b'p', b'l', b'o', worker], ..ORIGIN })
    }

    /// Returns a cluster of this number of nodes with the same indices, whose shards are assigned round robin.
    pub fn spread(&self, nodes: u16) -> Result<Self, Unusable> {
        let state = self.snapshot.answer("/_cluster/state");
        let mut state: Value = serde_json::from_slice(&state).map_err(SnapshotError::from)?;
        let id = |number: usize| format!("node-{}", number.saturating_add(1));
        let count = usize::from(nodes.max(1));
        let node = |number| (id(number), json!({"name": id(number)}));
        let mut next = 0_usize;
        for shards in indices(&mut state).filter_map(|index| index.get_mut("shards")?.as_object_mut()) {
            for copies in shards.values_mut() {
                *copies =
                    json!([{"primary": true, "state": "STARTED", "node": id(next.checked_rem(count).unwrap_or(0))}]);
                next = next.wrapping_add(1);
            }
        }
        if let Some(state) = state.as_object_mut() {
            state.insert("nodes".to_owned(), Value::Object((0..count).map(node).collect()));
        }
        let snapshot = Snapshot::read(state.to_string().as_bytes())?;
        let config = Config { nodes: NodeUpstreams::default(), ..self.config.clone() };
        Ok(Self { engine: engine(&config, &snapshot, ORIGIN)?, snapshot, config })
    }

    /// Returns the filter's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the names of the cluster's nodes, each with its upstream, if any.
    pub fn nodes(&self) -> Vec<(NodeName, Option<String>)> {
        let upstreams = self.engine.upstreams();
        let nodes = self.engine.table().into_iter().flat_map(|table| table.nodes());
        let named = nodes.map(|(node, upstream)| {
            (NodeName::from(node), upstream.ok().map(|upstream| upstreams.name(upstream).to_string()))
        });
        named.collect()
    }

    /// Explains the handling of a request with a path and query, and a body that may be compressed.
    pub fn explain(&self, path: &str, body: &[u8], listed: usize) -> Result<Explanation, Unusable> {
        let explanation = self.engine.explain(headers(path, body), body.to_vec(), listed);
        explanation.ok_or_else(|| Unusable::Path(path.to_owned()))
    }

    /// Returns what a request forwards between the nodes, with the filter and without.
    pub fn forwarding(&self, explanation: &Explanation) -> Forwarding {
        Forwarding::of(explanation, self.nodes().len())
    }

    /// Returns the location of a document.
    pub fn place(&self, name: &str, id: Option<&str>, routing: Option<&str>) -> Result<Place, Unusable> {
        let unrouted = |why| Unusable::Unrouted { name: name.to_owned(), why: Why::from(why) };
        let table = self.engine.table().ok_or_else(|| Unusable::Table("none".to_owned()))?;
        let target = table.write_target(name).map_err(unrouted)?;
        let choice = target.choice(id.map(hash), routing).map_err(unrouted)?.ok_or(Unusable::NoId)?;
        Ok(Place {
            index: target.index.to_owned(),
            kind: target.kind,
            shard: choice.shard,
            node: target.primary(choice.shard).map(NodeName::from),
            choice,
        })
    }
}

/// Returns the lines of each operation in a body, which may be compressed.
pub fn lines(body: &[u8], operations: &[ExplainedOperation]) -> Vec<Vec<u8>> {
    let plain = if is_gzip(body) { inflated(body) } else { body.to_vec() };
    let starts = memchr::memchr_iter(b'\n', &plain).map(|newline| newline.saturating_add(1));
    let starts: Vec<usize> = std::iter::once(0).chain(starts).collect();
    let start = |line: usize| starts.get(line).copied().unwrap_or(plain.len());
    let lines = operations.iter().map(|operation| {
        let (first, count) =
            (operation.line.saturating_sub(1) as usize, 1 + usize::from(operation.action.has_source()));
        plain.get(start(first)..start(first.saturating_add(count))).unwrap_or_default().to_vec()
    });
    lines.collect()
}

fn inflated(mut body: &[u8]) -> Vec<u8> {
    let (mut inflater, mut plain) = (Inflater::default(), Vec::new());
    while let Ok(piece) = inflater.inflate(&mut body, usize::MAX) {
        if piece.is_empty() {
            break;
        }
        plain.extend_from_slice(&piece);
    }
    plain
}

fn is_gzip(body: &[u8]) -> bool {
    body.starts_with(b"\x1f\x8b")
}

/// Returns the headers of a bulk request.
pub fn headers(path: &str, body: &[u8]) -> Vec<(String, Vec<u8>)> {
    let plain = [(":method", "POST"), (":path", path), (":authority", "es"), ("content-type", "application/x-ndjson")];
    let encoding = is_gzip(body).then_some(("content-encoding", "gzip"));
    plain.into_iter().chain(encoding).map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).collect()
}

fn indices(state: &mut Value) -> impl Iterator<Item = &mut Value> {
    let indices = state.get_mut("routing_table").and_then(|table| table.get_mut("indices"));
    indices.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
}

fn read_config(text: &str) -> Result<Config, Unusable> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let mut config: Map<String, Value> = serde_json::from_str(text).map_err(|_| Unusable::NoObject)?;
    config.entry("coordinator").or_insert_with(|| Value::from("coordinator"));
    Ok(Config::read(Value::Object(config).to_string().as_bytes())?)
}

/// Creates an engine and loads the state into it.
fn engine(config: &Config, snapshot: &Snapshot, origin: Origin) -> Result<Engine, Unusable> {
    let mut engine = Engine::new(config.clone(), origin, Box::new(Unshared));
    let (first, mut problem) = (RequestId(u32::MAX), String::new());
    // A request wakes the engine.
    let (headers, route) = (headers("/_bulk", b""), Some(config.coordinator.clone().into_bytes()));
    engine.handle(Input::RequestHead { request: first, headers, route, end: true }, Time::ZERO);
    while engine.poll_stream().is_some() {}
    engine.handle(Input::RequestGone { request: first }, Time::ZERO);
    while engine.poll_stream().is_some() {}
    for _ in 0..STEPS {
        engine.handle(Input::Woken, Time::ZERO);
        let (mut asked, mut again) = (Vec::new(), false);
        while let Some(command) = engine.poll_root() {
            match command {
                Command::Call(call) => asked.push(call),
                Command::Wake => again = true,
                Command::Warn(warning) => problem = warning,
                _ => {}
            }
        }
        for call in &asked {
            let path = call.headers.iter().find(|(name, _)| name == ":path").map_or("", |(_, path)| path);
            let response = Response { status: 200, body: snapshot.answer(path), ..Response::default() };
            engine.handle(Input::CallAnswered { call: call.id, response }, Time::ZERO);
        }
        if asked.is_empty() && !again {
            break;
        }
    }
    if engine.table().is_none() { Err(Unusable::Table(problem)) } else { Ok(engine) }
}
