use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Time;
use crate::config::Config;
use crate::engine::Engine;
use crate::engine::audit::Audited;
use crate::engine::command::{Call, Command, Headers, RequestId, Response};
use crate::engine::input::Input;
use crate::engine::metrics::{Counter, Gauge, Histogram, MetricEvents};
use crate::engine::pass_through::PassThrough;
use crate::engine::requests::Origin;
use crate::routing::{Formula, Unshared, hash};

/// A test harness: an engine, its pending commands, and a virtual clock.
pub struct Harness {
    pub engine: Audited,
    pub now: Time,
    /// The batches in flight, oldest first.
    pub calls: Vec<Call>,
    /// The cluster-state queries in flight.
    pub state_queries: Vec<Call>,
    /// The replies.
    pub replies: BTreeMap<u32, Response>,
    /// The requests that passed through, with the returned body.
    pub passed: BTreeMap<u32, Vec<u8>>,
    /// The requests whose headers continued while their bodies were kept.
    pub headers_gone: Vec<u32>,
    /// The requests whose headers were held back and then continued.
    pub resumed: Vec<u32>,
    pub warnings: Vec<String>,
    pub timer: Option<Duration>,
    pub wake_ups: usize,
    pub counts: BTreeMap<Counter, u64>,
    pub samples: Vec<(Histogram, u64)>,
    /// The access log fields of each request.
    pub access_log: BTreeMap<u32, Vec<String>>,
    /// The number of counters and gauges in the last measurement.
    pub measured: usize,
    next_request: u32,
}

const ORIGIN: Origin = Origin { since_epoch: Duration::from_secs(1_700_000_000), vm: [7; 6] };

/// Returns a cluster of three nodes with an index "i" of six shards and an alias "a". Shards 0 and 3 are on es-0, 1 and
/// 4 on es-1, and 2 and 5 on es-2.
pub fn state() -> Value {
    let shards: serde_json::Map<String, Value> = (0..6)
        .map(|shard| {
            let copy = json!([{"primary": true, "state": "STARTED", "node": format!("n{}", shard % 3)}]);
            (shard.to_string(), copy)
        })
        .collect();
    json!({
        "version": 1, "state_uuid": "u", "cluster_uuid": "c",
        "nodes": {"n0": {"name": "es-0"}, "n1": {"name": "es-1"}, "n2": {"name": "es-2"}},
        "metadata": {"indices": {"i": {
            "version": 1, "state": "open", "routing_num_shards": 768, "aliases": ["a"],
            "settings": {"index": {"uuid": "i", "number_of_shards": "6", "version": {"created": "136408127"}}},
        }}},
        "routing_table": {"indices": {"i": {"shards": shards}}},
    })
}

/// Returns the answer of a cluster in this state to a query. It contains more than the query requests.
fn truth(state: &Value, path: &str) -> Value {
    match path.split('?').next().unwrap() {
        "/_cluster/settings" => json!({}),
        "/_alias" => json!({}),
        // The state itself has the releases and the roles that a test needs.
        "/_nodes/http" => json!({}),
        path if path.starts_with("/_cluster/state/") => state.clone(),
        other => panic!("{other}"),
    }
}

/// Returns the n-th id whose document belongs on a node.
pub fn id_on(node: usize, n: usize) -> String {
    let formula = Formula::Factor { shards: 6, routing_shards: 768 };
    let lives_there = |id: &String| formula.shard(hash(id)) as usize % 3 == node;
    (0..).map(|number| format!("d{number}")).filter(lives_there).nth(n).unwrap()
}

/// Returns the shard of index "i" on which a document with this id or routing value belongs.
pub fn shard_of(key: &str) -> u32 {
    Formula::Factor { shards: 6, routing_shards: 768 }.shard(hash(key))
}

/// Returns the n-th id of a shard of index "i".
pub fn id_of(shard: u32, n: usize) -> String {
    (0..).map(|number| format!("d{number}")).filter(|id| shard_of(id) == shard).nth(n).unwrap()
}

/// Returns the ids or routing values in a batch, in order.
pub fn keys(call: &Call) -> Vec<String> {
    let text = String::from_utf8(call.body.clone()).unwrap();
    let lines = text.lines().step_by(2).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let key = |line: Value| {
        let fields = line.as_object().unwrap().values().next().unwrap().clone();
        fields.get("routing").or(fields.get("_id")).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    lines.map(key).collect()
}

/// Returns a bulk body that indexes documents with these ids.
pub fn index(ids: &[String]) -> String {
    ids.iter().map(|id| format!("{{\"index\":{{\"_index\":\"i\",\"_id\":\"{id}\"}}}}\n{{\"of\":\"{id}\"}}\n")).collect()
}

impl Harness {
    /// Creates a harness that knows the cluster state.
    pub fn new(config: Value) -> Self {
        Self::knowing(config, &state())
    }

    /// Creates a harness that knows this state.
    pub fn knowing(config: Value, state: &Value) -> Self {
        let mut harness = Self::without_state(config);
        harness.request("/_bulk", "");
        harness.load(state);
        harness.passed.clear();
        harness.counts.clear();
        harness.wake_ups = 0;
        harness
    }

    /// Completes the pending poll of the cluster state.
    pub fn load(&mut self, state: &Value) {
        loop {
            let asked = self.wake_ups;
            self.root(Input::Woken);
            match self.state_queries.pop() {
                Some(call) => {
                    let body = truth(state, &call.headers[1].1).to_string().into_bytes();
                    let response = Response { status: 200, body, ..Response::default() };
                    self.root(Input::CallAnswered { call: call.id, response });
                }
                None if self.wake_ups == asked => return,
                None => {}
            }
        }
    }

    pub fn without_state(config: Value) -> Self {
        let mut whole = json!({"coordinator": "es"});
        whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
        let config = Config::read(whole.to_string().as_bytes()).unwrap();
        let engine = Engine::new(config, ORIGIN, Box::new(Unshared));
        Self {
            engine: Audited::new(engine),
            now: Time::from_secs(1),
            calls: Vec::new(),
            state_queries: Vec::new(),
            replies: BTreeMap::new(),
            passed: BTreeMap::new(),
            headers_gone: Vec::new(),
            resumed: Vec::new(),
            warnings: Vec::new(),
            timer: None,
            wake_ups: 0,
            counts: BTreeMap::new(),
            samples: Vec::new(),
            access_log: BTreeMap::new(),
            measured: 0,
            next_request: 0,
        }
    }

    /// Sends a request with its whole body in one chunk. On return it is held or has passed through.
    pub fn request(&mut self, path: &str, body: &str) -> u32 {
        self.request_with(path, &[], body)
    }

    pub fn request_with(&mut self, path: &str, headers: &[(&str, &str)], body: &str) -> u32 {
        let id = self.head(path, headers);
        self.data(id, body, true);
        id
    }

    pub fn head(&mut self, path: &str, headers: &[(&str, &str)]) -> u32 {
        self.head_to(Some("es"), path, headers)
    }

    /// Sends a request's headers with a route to this cluster, or to none.
    pub fn head_to(&mut self, route: Option<&str>, path: &str, headers: &[(&str, &str)]) -> u32 {
        let id = self.next_request;
        self.next_request += 1;
        let fixed = [(":method", "POST"), (":path", path), (":authority", "es"), ("content-type", "application/json")];
        let headers = fixed.iter().chain(headers).map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        let (headers, route) = (headers.collect(), route.map(Into::into));
        self.stream(Input::RequestHead { request: RequestId(id), headers, route, end: false });
        id
    }

    pub fn data(&mut self, id: u32, chunk: impl AsRef<[u8]>, end: bool) {
        if !self.passed.contains_key(&id) {
            self.stream(Input::RequestData { request: RequestId(id), chunk: chunk.as_ref().to_vec(), end });
        }
    }

    pub fn gone(&mut self, id: u32) {
        self.stream(Input::RequestGone { request: RequestId(id) });
    }

    pub fn stream(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        while let Some(command) = self.engine.poll_stream() {
            match command {
                Command::PassThrough { request, body } => {
                    assert!(self.passed.insert(request.0, body.concat()).is_none());
                }
                Command::PassHeaders { request } => self.headers_gone.push(request.0),
                Command::Wake => self.wake_ups += 1,
                Command::Note { request, field, value } => self.note(request, field, value),
                other => panic!("{other:?} in a stream's callback"),
            }
        }
        self.count();
    }

    /// Runs a callback of the root context.
    pub fn root(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        while let Some(command) = self.engine.poll_root() {
            match command {
                Command::Call(call) if call.headers[0].1 == "GET" => self.state_queries.push(call),
                Command::Call(call) => self.calls.push(call),
                Command::Reply { request, response } => {
                    assert!(self.replies.insert(request.0, response).is_none(), "answered twice");
                }
                Command::Wake => self.wake_ups += 1,
                Command::SetTimer(after) => self.timer = Some(after),
                Command::Warn(text) => self.warnings.push(text),
                Command::Resume { request } => self.resumed.push(request.0),
                Command::Note { request, field, value } => self.note(request, field, value),
                Command::Measure { request, counters, gauges } => self.measure(request, &counters, &gauges),
                Command::PassThrough { .. } | Command::PassHeaders { .. } => panic!("outside the stream's callback"),
            }
        }
        self.count();
    }

    fn note(&mut self, request: RequestId, field: &str, value: String) {
        let RequestId(id) = request;
        assert!(!self.replies.contains_key(&id) && !self.passed.contains_key(&id), "too late for the access log");
        self.access_log.entry(id).or_default().push(format!("{field}={value}"));
    }

    /// Passes in the metrics of this worker, as if it were the only one.
    fn measure(&mut self, request: RequestId, counters: &[Counter], gauges: &[Gauge]) {
        let now = self.engine.gauges();
        self.measured = counters.len() + gauges.len();
        let counters = counters.iter().map(|counter| (*counter, self.counts.get(counter).copied().unwrap_or_default()));
        let gauges = gauges.iter().map(|gauge| (*gauge, now.get(gauge).copied().unwrap_or_default()));
        let input = Input::Measured { request, counters: counters.collect(), gauges: gauges.collect() };
        self.engine.handle(input, self.now);
    }

    pub fn woken(&mut self) {
        self.root(Input::Woken);
    }

    pub fn tick_after(&mut self, time: Duration) {
        self.now += time;
        self.root(Input::Tick);
    }

    /// Removes the oldest call to an upstream.
    pub fn take_call(&mut self, upstream: &str) -> Call {
        let position = self.calls.iter().position(|call| call.upstream.as_ref() == upstream);
        self.calls.remove(position.unwrap_or_else(|| panic!("no call to {upstream}: {:?}", self.upstreams())))
    }

    /// Returns the upstreams of the calls in flight.
    pub fn upstreams(&self) -> Vec<&str> {
        self.calls.iter().map(|call| call.upstream.as_ref()).collect()
    }

    /// Answers the oldest call to an upstream as a node would.
    pub fn answer(&mut self, upstream: &str) {
        let call = self.take_call(upstream);
        let body = truthful(&call.body, upstream).to_string().into_bytes();
        let headers = [("content-type".to_owned(), "application/json".to_owned())].into();
        self.root(Input::CallAnswered { call: call.id, response: Response { status: 200, headers, body } });
    }

    /// Answers the oldest call to an upstream with this status and body.
    pub fn answer_with(&mut self, upstream: &str, status: u16, body: &str) {
        let call = self.take_call(upstream);
        let response = Response { status, headers: Headers::default(), body: body.as_bytes().to_vec() };
        self.root(Input::CallAnswered { call: call.id, response });
    }

    /// Answers all calls until none is in flight.
    pub fn settle(&mut self) {
        while let Some(call) = self.calls.first() {
            let upstream = call.upstream.to_string();
            self.answer(&upstream);
        }
        self.woken();
    }

    pub fn reply(&self, id: u32) -> Value {
        serde_json::from_slice(&self.replies[&id].body).unwrap()
    }

    /// Returns the ids in the items of a reply, each with its status.
    pub fn items(&self, id: u32) -> Vec<(String, u64)> {
        let reply = self.reply(id);
        let items = reply["items"].as_array().unwrap().iter();
        items
            .map(|item| {
                let (_, fields) = item.as_object().unwrap().iter().next().unwrap();
                (fields["_id"].as_str().unwrap_or_default().to_owned(), fields["status"].as_u64().unwrap())
            })
            .collect()
    }

    pub fn passed_because(&self, why: PassThrough) -> u64 {
        self.counts.get(&Counter::RequestsPassedThrough(why)).copied().unwrap_or_default()
    }

    fn count(&mut self) {
        assert_eq!(self.engine.uncounted(), None, "more is allocated than is counted");
        let mut events = MetricEvents::default();
        self.engine.take_events(&mut events);
        for (metric, by) in events.counts {
            *self.counts.entry(metric).or_default() += by;
        }
        self.samples.extend(events.samples);
    }
}

/// Returns a node's answer to a batch: 201 for each operation, or 404 for a delete.
fn truthful(batch: &[u8], node: &str) -> Value {
    let mut lines = std::str::from_utf8(batch).unwrap().lines();
    let mut items = Vec::new();
    while let Some(line) = lines.next() {
        let (action, fields) =
            serde_json::from_str::<serde_json::Map<String, Value>>(line).unwrap().into_iter().next().unwrap();
        let status = if action == "delete" { 404 } else { 201 };
        if action != "delete" {
            lines.next().unwrap();
        }
        let id = fields["_id"].as_str().unwrap_or("made");
        items.push(json!({action: {"_index": "i", "_id": id, "_node": node, "status": status}}));
    }
    json!({"took": 5, "errors": false, "items": items})
}
