use std::collections::BTreeMap;
use std::io::Read;
use std::rc::Rc;
use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::Time;
use crate::config::Config;
use crate::engine::Engine;
use crate::engine::audit::Audited;
use crate::engine::command::{Call, Command, RequestId, Response};
use crate::engine::input::Input;
use crate::engine::metrics::{Counter, Gauge, Histogram, MetricEvents};
use crate::engine::pass_through::PassThrough;
use crate::engine::requests::Origin;
use crate::routing::{Formula, Unshared, UpstreamId, hash};

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
    /// The requests that continue while copies of their bodies are read, with these bodies.
    pub observed: BTreeMap<u32, Vec<u8>>,
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
    /// An upstream that leads to the node of another one.
    pub misled: Option<(&'static str, &'static str)>,
    /// A header of the answers to queries that name a node, which names the host that gave them.
    pub host_header: Option<(&'static str, &'static str)>,
    /// The number of counters and gauges in the last measurement.
    pub measured: usize,
    next_request: u32,
}

pub const MILLISECOND: Duration = Duration::from_millis(1);

const ORIGIN: Origin = Origin { since_epoch: Duration::from_secs(1_700_000_000), vm: [7; 6] };

/// Returns a cluster of three nodes with an index "i" of six shards and an alias "a". Shards 0 and 3 are on es-0, 1 and
/// 4 on es-1, and 2 and 5 on es-2.
pub fn state() -> Value {
    let shards = shards(6, |shard| format!("n{}", shard % 3));
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

/// Returns the same cluster with nodes that publish addresses and are in two zones: es-0 and es-1 in "a", es-2 in "b".
pub fn zoned_state() -> Value {
    let mut state = state();
    state["http"] = json!({});
    for (node, zone) in ["a", "a", "b"].into_iter().enumerate() {
        state["nodes"][format!("n{node}")]["attributes"] = json!({"zone": zone, "rack": zone.repeat(node + 1)});
        state["http"][format!("n{node}")] = json!({"http": {"publish_address": format!("10.0.0.{node}:9200")}});
    }
    state
}

/// Returns the part of a routing table that places shards on nodes.
pub fn shards(count: u32, node: impl Fn(u32) -> String) -> serde_json::Map<String, Value> {
    let copy = |shard| json!([{"primary": true, "state": "STARTED", "node": node(shard)}]);
    (0..count).map(|shard| (shard.to_string(), copy(shard))).collect()
}

/// Adds an index like "i" to a state, without aliases. Returns its metadata.
pub fn add_index<'state>(state: &'state mut Value, name: &str) -> &'state mut Value {
    for part in ["metadata", "routing_table"] {
        state[part]["indices"][name] = state[part]["indices"]["i"].clone();
    }
    let metadata = &mut state["metadata"]["indices"][name];
    metadata["aliases"] = json!([]);
    metadata["settings"]["index"]["uuid"] = json!(name);
    metadata
}

/// Adds a data stream "stream" of one index, and its alias "streams".
pub fn add_data_stream(state: &mut Value) {
    add_index(state, ".ds-stream-1");
    state["metadata"]["data_stream"] = json!({
        "data_stream": {"stream": {"indices": [{"index_name": ".ds-stream-1"}]}},
        "data_stream_aliases": {"streams": {"write_data_stream": "stream"}},
    });
}

/// Sets the releases of the three nodes.
pub fn set_releases(state: &mut Value, releases: [&str; 3]) {
    for (node, release) in ["n0", "n1", "n2"].into_iter().zip(releases) {
        state["nodes"][node]["version"] = json!(release);
    }
}

/// Returns an object with more fields.
pub fn with(mut object: Value, more: &Value) -> Value {
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// Returns the answer of a cluster in this state to a query. It contains more than the query requests.
fn truth(state: &Value, call: &Call) -> Value {
    match call.headers[1].1.split('?').next().unwrap() {
        "/_nodes/_local" => {
            let address = call.node.as_ref().map(|(_, address)| address.as_ref());
            let is_there = |(id, node): &(&String, &Value)| match address {
                Some(address) => {
                    state["http"][id]["http"]["publish_address"].as_str().is_some_and(|found| found.ends_with(address))
                }
                None => node["name"] == call.upstream.as_ref(),
            };
            let nodes = state["nodes"].as_object().unwrap().iter().filter(is_there);
            json!({"nodes": nodes.map(|(id, node)| (id.clone(), node.clone())).collect::<serde_json::Map<_, _>>()})
        }
        "/_cluster/settings" => state.get("settings").cloned().unwrap_or_else(|| json!({})),
        "/_alias" => state.get("alias").cloned().unwrap_or_else(|| json!({})),
        // The state itself has the releases and the roles that a test needs.
        "/_nodes/http" => json!({"nodes": state.get("http").cloned().unwrap_or_else(|| json!({}))}),
        path if path.starts_with("/_cluster/state/") => state.clone(),
        other => panic!("{other}"),
    }
}

/// Returns the n-th id whose document belongs on a node.
pub fn id_on(node: usize, n: usize) -> String {
    (0..).map(|number| format!("d{number}")).filter(|id| shard_of(id) as usize % 3 == node).nth(n).unwrap()
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
    let key = |sent: Sent| {
        let key = sent.parameters.get("routing").or(sent.parameters.get("_id"));
        key.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    sent(&call.body).into_iter().map(key).collect()
}

/// An operation in a batch.
pub struct Sent {
    pub action: String,
    pub parameters: Value,
    /// The document, or null without one.
    pub document: Value,
}

impl Sent {
    /// Returns a node's item for the operation, with more fields.
    pub fn item(self, more: &Value) -> Value {
        let id = self.parameters.get("_id").and_then(Value::as_str).unwrap_or("made");
        json!({self.action: with(json!({"_index": "i", "_id": id}), more)})
    }
}

/// Returns the operations in a batch, which may be compressed.
pub fn sent(batch: &[u8]) -> Vec<Sent> {
    let mut text = String::new();
    let read = GzDecoder::new(batch).read_to_string(&mut text);
    if read.is_err() {
        text = String::from_utf8(batch.to_vec()).unwrap();
    }
    let mut lines = text.lines();
    let mut operations = Vec::new();
    while let Some(line) = lines.next() {
        let line: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
        let (action, parameters) = line.into_iter().next().unwrap();
        let document = if action == "delete" { "" } else { lines.next().unwrap() };
        operations.push(Sent { action, parameters, document: document.parse().unwrap_or_default() });
    }
    operations
}

/// Returns an operation with these parameters, and its document.
pub fn operation(action: &str, name: &str, id: &str, more: &Value) -> String {
    let parameters = with(json!({"_index": name, "_id": id}), more);
    let document = match action {
        "delete" => "",
        "update" => "{\"doc\":{}}\n",
        _ => "{}\n",
    };
    format!("{}\n{document}", json!({action: parameters}))
}

/// Returns headers as the engine reads them.
pub fn header_map(headers: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect()
}

/// Returns the text of a batch.
pub fn text(call: &Call) -> String {
    String::from_utf8(call.body.clone()).unwrap()
}

/// Returns a bulk body that indexes documents with these ids.
pub fn index(ids: &[String]) -> String {
    ids.iter().map(|id| format!("{{\"index\":{{\"_index\":\"i\",\"_id\":\"{id}\"}}}}\n{{\"of\":\"{id}\"}}\n")).collect()
}

/// Reads a configuration that lacks only the coordinator.
fn read_config(config: &Value) -> Config {
    Config::read(with(json!({"coordinator": "es"}), config).to_string().as_bytes()).unwrap()
}

impl Harness {
    /// Creates a harness that knows the cluster state.
    pub fn new(config: Value) -> Self {
        Self::knowing(config, &state())
    }

    /// Does the same, without a poll in the next hour.
    pub fn quiet(config: &Value) -> Self {
        Self::new(with(json!({"cluster_state": {"refresh": "1h"}}), config))
    }

    /// Creates a harness with one request, which is dispatched, for documents with these ids.
    pub fn writing(config: Value, ids: &[String]) -> (Self, u32) {
        let mut harness = Self::new(config);
        let id = harness.write(ids);
        (harness, id)
    }

    /// Creates a harness that knows this state.
    pub fn knowing(config: Value, state: &Value) -> Self {
        let mut harness = Self::without_state(config);
        let id = harness.request("/_bulk", "");
        harness.gone(id);
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
                    let misled = self.misled.filter(|(from, _)| *from == call.upstream.as_ref());
                    let upstream = misled.map_or_else(|| Rc::clone(&call.upstream), |(_, to)| to.into());
                    let body = truth(state, &Call { upstream, ..call.clone() }).to_string().into_bytes();
                    let host = self.host_header.filter(|_| call.node.is_some());
                    let headers = host.into_iter().map(|(name, host)| (name.to_owned(), host.to_owned())).collect();
                    let response = Response { status: 200, headers, body };
                    self.root(Input::CallAnswered { call: call.id, response });
                }
                None if self.wake_ups == asked => return,
                None => {}
            }
        }
    }

    pub fn without_state(config: Value) -> Self {
        let engine = Engine::new(read_config(&config), ORIGIN, Box::new(Unshared));
        Self {
            engine: Audited::new(engine),
            now: Time::from_secs(1),
            calls: Vec::new(),
            state_queries: Vec::new(),
            replies: BTreeMap::new(),
            passed: BTreeMap::new(),
            observed: BTreeMap::new(),
            headers_gone: Vec::new(),
            resumed: Vec::new(),
            warnings: Vec::new(),
            timer: None,
            wake_ups: 0,
            counts: BTreeMap::new(),
            samples: Vec::new(),
            access_log: BTreeMap::new(),
            misled: None,
            host_header: None,
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

    /// Sends a request, and dispatches what is ready.
    pub fn send(&mut self, path: &str, body: &str) -> u32 {
        self.send_with(path, &[], body)
    }

    pub fn send_with(&mut self, path: &str, headers: &[(&str, &str)], body: &str) -> u32 {
        let id = self.request_with(path, headers, body);
        self.woken();
        id
    }

    /// Sends a request for documents with these ids, and dispatches what is ready.
    pub fn write(&mut self, ids: &[String]) -> u32 {
        self.send("/_bulk", &index(ids))
    }

    /// Sends a request that passes through unchanged.
    pub fn assert_passes(&mut self, path: &str, body: &str) {
        let id = self.request(path, body);
        let passed = self.passed.get(&id).map(|passed| String::from_utf8_lossy(passed));
        assert_eq!(passed.as_deref(), Some(body), "{path}");
    }

    pub fn head(&mut self, path: &str, headers: &[(&str, &str)]) -> u32 {
        self.head_to(Some("es"), path, headers)
    }

    /// Sends a request's headers with a route to this cluster, or to none.
    pub fn head_to(&mut self, route: Option<&str>, path: &str, headers: &[(&str, &str)]) -> u32 {
        let id = self.next_request;
        self.next_request += 1;
        let fixed = [(":method", "POST"), (":path", path), (":authority", "es"), ("content-type", "application/json")];
        let (headers, route) = (header_map(&[&fixed, headers].concat()), route.map(Into::into));
        self.stream(Input::RequestHead { request: RequestId(id), headers, route, end: false });
        id
    }

    /// Sends a request without a body, which no route leads to a cluster.
    pub fn send_bodiless(&mut self, id: u32, method: &str, path: &str) {
        let (request, headers) = (RequestId(id), header_map(&[(":method", method), (":path", path)]));
        self.stream(Input::RequestHead { request, headers, route: None, end: true });
    }

    pub fn data(&mut self, id: u32, chunk: impl AsRef<[u8]>, end: bool) {
        self.observed.get_mut(&id).into_iter().for_each(|body| body.extend_from_slice(chunk.as_ref()));
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
                // The harness keeps the body that goes on.
                Command::Observe { request } => {
                    assert!(self.observed.insert(request.0, Vec::new()).is_none());
                }
                Command::PassHeaders { request } => self.headers_gone.push(request.0),
                Command::Wake => self.wake_ups += 1,
                Command::LogField { request, field, value } => self.log_field(request, field, value),
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
                Command::LogField { request, field, value } => self.log_field(request, field, value),
                Command::Measure { request, counters, gauges } => self.measure(request, &counters, &gauges),
                Command::PassThrough { .. } | Command::PassHeaders { .. } | Command::Observe { .. } => {
                    panic!("outside the stream's callback")
                }
            }
        }
        self.count();
    }

    fn log_field(&mut self, request: RequestId, field: &str, value: String) {
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

    /// Returns the number of an upstream.
    pub fn upstream(&self, name: &str) -> UpstreamId {
        let upstreams = self.engine.upstreams();
        upstreams.ids().find(|id| upstreams.name(*id).as_ref() == name).unwrap()
    }

    /// Sends a request for each of the first documents of a node, without dispatching them.
    pub fn hold(&mut self, node: usize, count: usize) -> Vec<u32> {
        (0..count).map(|n| self.request("/_bulk", &index(&[id_on(node, n)]))).collect()
    }

    /// Does the same, and dispatches what is ready.
    pub fn write_each(&mut self, node: usize, count: usize) -> Vec<u32> {
        let ids = self.hold(node, count);
        self.woken();
        ids
    }

    /// Sends requests with these bodies. Returns them once they are in one batch at es-0.
    pub fn merge<const N: usize>(&mut self, bodies: [&str; N]) -> [u32; N] {
        self.write(&[id_on(0, 99)]);
        let ids = bodies.map(|body| self.request("/_bulk", body));
        self.answer("es-0");
        assert_eq!(self.bodies(), [bodies.concat()]);
        ids
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
        self.respond(upstream, status, &[], body);
    }

    /// Answers the oldest call to an upstream with these items.
    pub fn answer_items(&mut self, upstream: &str, items: &Value) {
        let errors = items.to_string().contains(r#""error""#);
        self.answer_with(upstream, 200, &json!({"took": 1, "errors": errors, "items": items}).to_string());
    }

    /// Answers the oldest call to an upstream as Envoy does.
    pub fn envoy_says(&mut self, upstream: &str, status: u16, text: &str) {
        self.respond(upstream, status, &[("content-type", "text/plain")], text);
    }

    pub fn respond(&mut self, upstream: &str, status: u16, headers: &[(&str, &str)], body: &str) {
        let call = self.take_call(upstream);
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let response = Response { status, headers, body: body.as_bytes().to_vec() };
        self.root(Input::CallAnswered { call: call.id, response });
    }

    /// Loses the oldest call to an upstream.
    pub fn lose(&mut self, upstream: &str) {
        let call = self.take_call(upstream).id;
        self.root(Input::CallFailed { call });
    }

    /// Refuses to send the oldest call to an upstream, which Envoy does not have.
    pub fn refuse_to_send(&mut self, upstream: &str) {
        let call = self.take_call(upstream).id;
        self.root(Input::CallNotSent { call, has_upstream: false });
    }

    /// Answers all calls until none is in flight.
    pub fn settle(&mut self) {
        self.drain(|_| ());
        self.woken();
    }

    /// Answers all calls. The engine then has nothing left to do, and counts no memory.
    pub fn finish(&mut self) {
        self.settle();
        self.assert_idle();
    }

    pub fn assert_idle(&self) {
        assert!(self.engine.is_idle());
        assert!(self.engine.requests.callers_are_idle());
        assert_eq!(self.engine.memory(), 0);
    }

    /// Changes the configuration.
    pub fn reconfigure(&mut self, config: &Value) {
        self.engine.reconfigure(Rc::new(read_config(config)));
        self.woken();
    }

    /// Answers the oldest batch in flight until there is none. Returns what was seen of each before its answer.
    pub fn drain<T>(&mut self, see: impl Fn(&Self) -> T) -> Vec<T> {
        let mut seen = Vec::new();
        while let Some(call) = self.calls.first() {
            let upstream = call.upstream.clone();
            seen.push(see(self));
            self.answer(&upstream);
        }
        seen
    }

    /// Returns the bodies of the batches in flight to an upstream, oldest first.
    pub fn bodies_to(&self, upstream: &str) -> Vec<String> {
        self.calls.iter().filter(|call| call.upstream.as_ref() == upstream).map(text).collect()
    }

    /// Returns the bodies of the batches in flight, oldest first.
    pub fn bodies(&self) -> Vec<String> {
        self.calls.iter().map(text).collect()
    }

    /// Returns the number of operations with documents in a batch in flight.
    pub fn operations(&self, call: usize) -> usize {
        self.calls[call].body.iter().filter(|byte| **byte == b'\n').count() / 2
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

    /// Returns the statuses in the items of a reply.
    pub fn statuses(&self, id: u32) -> Vec<u64> {
        self.items(id).into_iter().map(|(_, status)| status).collect()
    }

    pub fn passed_because(&self, why: PassThrough) -> u64 {
        self.counts.get(&Counter::RequestsPassedThrough(why)).copied().unwrap_or_default()
    }

    /// Returns the sum of these counters.
    pub fn counted(&self, is_meant: impl Fn(&Counter) -> bool) -> u64 {
        self.counts.iter().filter(|(counter, _)| is_meant(counter)).map(|(_, count)| count).sum()
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
    let item = |sent: Sent| {
        let status = if sent.action == "delete" { 404 } else { 201 };
        sent.item(&json!({"_node": node, "status": status}))
    };
    json!({"took": 5, "errors": false, "items": sent(batch).into_iter().map(item).collect::<Vec<_>>()})
}
