use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle::bulk::ActionLine;
use bulk_reshuffle::config::Config;
use bulk_reshuffle::engine::{Call, Command, Engine, ExplainedOperation, Input, Origin, RequestId, Response, Way};
use bulk_reshuffle::routing::Unshared;
use bulk_reshuffle_stack::Distribution;
use serde_json::{Value, json};

use super::grammar::{Body, Query};

/// The filter's engine, which knows the state of a cluster of one release.
#[derive(Debug)]
pub struct Filter {
    engine: Engine,
    release: Distribution,
    requests: u32,
}

/// What the filter does with a request.
#[derive(Debug)]
pub enum Handling {
    /// It passes the request through whole, for this reason.
    PassedThrough(&'static str),
    /// It vouches for these operations, and sends these batches.
    Split { operations: Vec<ExplainedOperation>, batches: Vec<Vec<u8>> },
}

impl Handling {
    /// Returns the batches that are sent.
    pub fn batches(&self) -> &[Vec<u8>] {
        match self {
            Self::Split { batches, .. } => batches,
            Self::PassedThrough(_) => &[],
        }
    }
}

impl Filter {
    /// Creates the filter in front of a node that holds the indices which usual bodies name.
    pub fn in_front_of(release: Distribution) -> Self {
        let config = br#"{"coordinator": "es", "nodes": {"upstream": "{name}"}}"#;
        let config = Config::read(config).expect("a configuration");
        let origin = Origin { since_epoch: Duration::from_secs(1_700_000_000), vm: [1; 6] };
        let mut filter = Self { engine: Engine::new(config, origin, Box::new(Unshared)), release, requests: 0 };
        let body = Body { bytes: b"{\"index\":{}}\n{}\n".to_vec(), query: Query::default(), oddities: Vec::new() };
        // The first request finds no state yet, and leads to the queries for it.
        filter.send(&body).expect("the engine is served");
        filter
    }

    /// Lets the filter handle a request with this body.
    pub fn handle(&mut self, body: &Body) -> Result<Handling> {
        let explained = self.engine.explain(headers(body.query), body.bytes.clone(), usize::MAX);
        let explained = explained.context("it is a bulk request")?;
        let batches = self.send(body)?;
        match (explained.way, explained.because) {
            (Way::Split, None) => Ok(Handling::Split { operations: explained.listed, batches }),
            (Way::PassedWhole, Some(fault)) => {
                ensure!(batches.is_empty(), "the request is split, but explained otherwise: {fault:?}");
                Ok(Handling::PassedThrough(fault.why.reason))
            }
            other => anyhow::bail!("{other:?}"),
        }
    }

    /// Sends a request, and returns the batches in which its operations leave.
    fn send(&mut self, body: &Body) -> Result<Vec<Vec<u8>>> {
        self.requests += 1;
        let (request, route) = (RequestId(self.requests), Some(b"es".to_vec()));
        let head = Input::RequestHead { request, headers: headers(body.query), route, end: false };
        let data = Input::RequestData { request, chunk: body.bytes.clone(), end: true };
        let mut passed = self.stream(head);
        if !passed {
            passed = self.stream(data);
        }
        let batches = self.root(Input::Woken)?;
        self.stream(Input::RequestGone { request });
        ensure!(passed == batches.is_empty(), "passed through: {passed}, with {} batches", batches.len());
        Ok(batches)
    }

    /// Returns whether the request passes through.
    fn stream(&mut self, input: Input) -> bool {
        self.engine.handle(input, Duration::ZERO);
        let commands = std::iter::from_fn(|| self.engine.poll_stream());
        commands.filter(|command| matches!(command, Command::PassThrough { .. })).count() > 0
    }

    /// Answers all calls, and returns the batches among them.
    fn root(&mut self, input: Input) -> Result<Vec<Vec<u8>>> {
        let (mut inputs, mut batches) = (vec![input], Vec::new());
        while let Some(input) = inputs.pop() {
            self.engine.handle(input, Duration::ZERO);
            while let Some(command) = self.engine.poll_root() {
                match command {
                    Command::Call(Call { id, headers, body, .. }) => {
                        let path = headers.iter().find(|(name, _)| name == ":path").context("a path")?;
                        let answer = if body.is_empty() { self.state(&path.1) } else { items(&body)? };
                        let headers = [("content-type".to_owned(), "application/json".to_owned())].into();
                        let response = Response { status: 200, headers, body: answer.to_string().into_bytes() };
                        inputs.push(Input::CallAnswered { call: id, response });
                        batches.extend(Some(body).filter(|body| !body.is_empty()));
                    }
                    Command::Wake => inputs.push(Input::Woken),
                    _ => {}
                }
            }
        }
        Ok(batches)
    }

    /// Returns the answer to a query for the cluster's state.
    fn state(&self, path: &str) -> Value {
        let (release, created) = match self.release {
            Distribution::Elasticsearch7_10 => ("7.10.2", 7_100_299),
            Distribution::Elasticsearch7_17 => ("7.17.29", 7_172_999),
            Distribution::Elasticsearch8 => ("8.19.21", 8_536_000),
            Distribution::Elasticsearch9 => ("9.5.3", 9_009_000),
            Distribution::OpenSearch1 => ("1.3.20", 135_248_027),
            Distribution::OpenSearch2 => ("2.19.6", 136_408_127),
            Distribution::OpenSearch3 => ("3.8.0", 137_287_827),
        };
        let names = ["books", "library", "logs-2026.01.02"];
        let each = |value: Value| names.iter().map(|name| ((*name).to_owned(), value.clone())).collect::<Value>();
        let node = json!({"name": "es-0", "version": release, "roles": ["data", "ingest"]});
        match path.split('?').next() {
            Some("/_alias") => each(json!({"aliases": {}})),
            Some("/_cluster/settings") => json!({}),
            Some("/_nodes/http") => json!({"nodes": {"n0": node}}),
            _ => json!({
                "version": 1, "state_uuid": "u", "cluster_uuid": "c",
                "nodes": {"n0": node},
                "metadata": {
                    "ingest": {"pipeline": [
                        {"id": "archive", "config": {"processors": [{"set": {"field": "a", "value": 1}}]}},
                    ]},
                    "indices": each(json!({
                        "version": 1, "state": "open", "routing_num_shards": 1024, "aliases": [],
                        "settings": {"index": {
                            "uuid": "u", "number_of_shards": "1", "version": {"created": created.to_string()},
                        }},
                    })),
                },
                "routing_table": {"indices": each(json!({
                    "shards": {"0": [{"primary": true, "state": "STARTED", "node": "n0"}]},
                }))},
            }),
        }
    }
}

fn headers(query: Query) -> Vec<(String, Vec<u8>)> {
    let index = query.index.map(|index| format!("/{index}")).unwrap_or_default();
    let parameter = |name: &str, value: Option<&str>| value.map(|value| format!("{name}={value}"));
    let parameters: Vec<_> = [
        parameter("routing", query.routing),
        parameter("pipeline", query.pipeline),
        parameter("require_alias", query.require_alias.then_some("true")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let path = format!("{index}/_bulk?{}", parameters.join("&"));
    [(":method", "POST"), (":path", &path), (":authority", "es"), ("content-type", "application/x-ndjson")]
        .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
        .into()
}

/// Returns a node's answer to a batch.
fn items(batch: &[u8]) -> Result<Value> {
    let mut lines = batch.split_inclusive(|byte| *byte == b'\n');
    let mut items = Vec::new();
    while let Some(line) = lines.next() {
        let line = ActionLine::read(line)?;
        if line.action.has_source() {
            lines.next().context("a batch ends in the middle of an operation")?;
        }
        let (index, id) = (line.index.as_deref().unwrap_or("books"), line.id.as_deref().unwrap_or("made"));
        items.push(json!({line.action.name(): {"_index": index, "_id": id, "status": 200}}));
    }
    Ok(json!({"took": 1, "errors": false, "items": items}))
}
