//! A cluster as its state describes it, and requests to it.

use std::time::Duration;

use bulk_reshuffle::Time;
use bulk_reshuffle::bulk::Inflater;
use bulk_reshuffle::config::{Config, ConfigError, Nodes};
use bulk_reshuffle::engine::{
    Command, Engine, ExplainedOperation, Explanation, Input, NodeName, Origin, RequestId, Response, Why,
};
use bulk_reshuffle::routing::{Choice, NameKind, Snapshot, SnapshotError, Unshared, hash};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::forwarding::Forwarding;

/// A cluster as its state describes it, behind an engine that knows that state.
#[derive(Debug)]
pub struct Cluster {
    engine: Engine,
    snapshot: Snapshot,
    config: Config,
}

/// Where a document is.
#[derive(Debug, Serialize)]
pub struct Place {
    /// The index that is written to.
    pub index: String,
    /// What the name stands for.
    pub kind: NameKind,
    /// The number of the shard.
    pub shard: u32,
    /// The node with its started primary, if there is one.
    pub node: Option<NodeName>,
    /// How the shard was worked out.
    pub choice: Choice,
}

/// What was handed in cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The cluster's state.
    #[error(transparent)]
    State(#[from] SnapshotError),
    /// The filter's configuration.
    #[error("the filter's configuration: {0}")]
    Config(#[from] ConfigError),
    /// The configuration is no JSON object.
    #[error("the filter's configuration is no JSON object")]
    NoObject,
    /// The state is one of which no routing table can be made.
    #[error("no routing table can be made of this cluster state: {0}")]
    Table(String),
    /// The request's path.
    #[error("{0} is no path of a bulk request: expected /_bulk or /{{index}}/_bulk")]
    Path(String),
    /// The index of a document.
    #[error("{name}: {} ({})", why.text, why.reason)]
    Unrouted {
        /// As it was given.
        name: String,
        /// Why nothing is routed there.
        why: Why,
    },
    /// The cluster chooses.
    #[error("without an id and a routing value the cluster chooses the shard")]
    NoId,
    /// There is nothing to send.
    #[error("the body holds no operation that is understood")]
    NoOperation,
}

/// When ids are made, they say that it is this late.
const ORIGIN: Origin = Origin { since_epoch: Duration::from_secs(1_700_000_000), vm: *b"explo\0" };

/// More steps than any state takes: one for every few hundred kilobytes.
const STEPS: usize = 100_000;

impl Cluster {
    /// A cluster in this state, behind a filter with this configuration, in which the coordinator need not be named.
    pub fn new(state: &str, config: &str) -> Result<Self, Unusable> {
        let config = read_config(config)?;
        let snapshot = Snapshot::read(state.as_bytes())?;
        let engine = engine(&config, &snapshot, ORIGIN)?;
        Ok(Self { engine, snapshot, config })
    }

    /// Another worker's engine in the same place, with another configuration.
    pub fn engine(&self, config: &Config, worker: u8) -> Result<Engine, Unusable> {
        engine(config, &self.snapshot, Origin { vm: [b'e', b'x', b'p', b'l', b'o', worker], ..ORIGIN })
    }

    /// The same indices on so many nodes, with their shards in turn.
    pub fn spread(&self, nodes: u16) -> Result<Self, Unusable> {
        let state = self.snapshot.answer("/_cluster/state");
        let mut state: Value = serde_json::from_slice(&state).map_err(SnapshotError::from)?;
        let id = |number: usize| format!("node-{}", number.saturating_add(1));
        let count = usize::from(nodes.max(1));
        let node = |number| (id(number), json!({"name": id(number)}));
        let mut turn = 0_usize;
        for shards in indices(&mut state).filter_map(|index| index.get_mut("shards")?.as_object_mut()) {
            for copies in shards.values_mut() {
                *copies =
                    json!([{"primary": true, "state": "STARTED", "node": id(turn.checked_rem(count).unwrap_or(0))}]);
                turn = turn.wrapping_add(1);
            }
        }
        if let Some(state) = state.as_object_mut() {
            state.insert("nodes".to_owned(), Value::Object((0..count).map(node).collect()));
        }
        let snapshot = Snapshot::read(state.to_string().as_bytes())?;
        let config = Config { nodes: Nodes::default(), ..self.config.clone() };
        Ok(Self { engine: engine(&config, &snapshot, ORIGIN)?, snapshot, config })
    }

    /// The filter's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The names of the cluster's nodes, each with its upstream if it has one.
    pub fn nodes(&self) -> Vec<(NodeName, Option<String>)> {
        let upstreams = self.engine.upstreams();
        let nodes = self.engine.table().into_iter().flat_map(|table| table.nodes());
        let named = nodes.map(|(node, upstream)| {
            (NodeName::from(node), upstream.ok().map(|upstream| upstreams.name(upstream).to_string()))
        });
        named.collect()
    }

    /// What becomes of a request: its path and query, and its body, compressed or not.
    pub fn explain(&self, path: &str, body: &[u8], listed: usize) -> Result<Explanation, Unusable> {
        let explanation = self.engine.explain(headers(path, body), body.to_vec(), listed);
        explanation.ok_or_else(|| Unusable::Path(path.to_owned()))
    }

    /// What of it would cross between the nodes, with the filter and without.
    pub fn forwarding(&self, explanation: &Explanation) -> Forwarding {
        Forwarding::of(explanation, self.nodes().len())
    }

    /// Where a document is.
    pub fn place(&self, name: &str, id: Option<&str>, routing: Option<&str>) -> Result<Place, Unusable> {
        let unrouted = |why| Unusable::Unrouted { name: name.to_owned(), why: Why::from(why) };
        let table = self.engine.table().ok_or_else(|| Unusable::Table("none".to_owned()))?;
        let target = table.write_target(name).map_err(unrouted)?;
        let choice = target.choice(id.map(hash), routing).map_err(unrouted)?.ok_or(Unusable::NoId)?;
        Ok(Place {
            index: target.index().to_owned(),
            kind: target.kind(),
            shard: choice.shard,
            node: target.primary(choice.shard).map(NodeName::from),
            choice,
        })
    }
}

/// The lines of operations in a body, compressed or not.
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

/// A bulk request's headers.
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

/// An engine that has asked for the state.
fn engine(config: &Config, snapshot: &Snapshot, origin: Origin) -> Result<Engine, Unusable> {
    let mut engine = Engine::new(config.clone(), origin, Box::new(Unshared));
    let (first, mut problem) = (RequestId(u32::MAX), String::new());
    // A request wakes it.
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
