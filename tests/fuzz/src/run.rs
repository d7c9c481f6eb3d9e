use std::collections::BTreeMap;

use bulk_reshuffle::Time;
use bulk_reshuffle::bulk::ActionLine;
use bulk_reshuffle::config::Config;
use bulk_reshuffle::engine::{Audited, Call, CallId, Command, Engine, Input, Origin, RequestId, Response, Way};
use bulk_reshuffle::routing::Unshared;
use serde_json::{Value, json};

/// The maximum number of replies after one input.
const REPLIES: usize = 64;

/// The number of ticks within which everything must end.
const LAST_STEPS: usize = 500;

/// An engine in a harness that executes its commands, and checks each one: whether it is allowed now, and whether its
/// request still exists.
pub struct Run {
    engine: Audited,
    config: Config,
    now: Time,
    streams: Vec<Stream>,
    calls: BTreeMap<CallId, Call>,
    /// The number of calls so far.
    called: u32,
}

/// One request of a client.
struct Stream {
    stage: Stage,
    headers: Vec<(String, Vec<u8>)>,
    /// The part of the body that the engine has received.
    body: Vec<u8>,
    /// Whether the body is complete.
    ended: bool,
    /// Whether the body is uncompressed, as the engine reads operations from it.
    plain: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Here,
    Passed,
    Answered,
    Gone,
}

impl Run {
    /// Creates a run in which nothing has happened.
    pub fn new(config: Config) -> Self {
        let origin = Origin { since_epoch: Time::from_secs(1_700_000_000), vm: [1; 6] };
        let engine = Audited::new(Engine::new(config.clone(), origin, Box::new(Unshared)));
        Self { engine, config, now: Time::ZERO, streams: Vec::new(), calls: BTreeMap::new(), called: 0 }
    }

    /// Lets the engine learn the cluster state.
    pub fn load(&mut self) {
        for _ in 0..LAST_STEPS {
            self.tick(Time::from_millis(100));
            self.wake();
            if self.engine.table().is_some() && self.calls.is_empty() {
                return;
            }
            while !self.calls.is_empty() {
                self.answer_well(0);
            }
        }
        panic!("the engine did not learn the cluster state");
    }

    /// Delivers a request's headers.
    pub fn head(&mut self, headers: &[(&str, &[u8])], end: bool) {
        let request = RequestId(self.streams.len() as u32);
        let plain = !headers.iter().any(|(name, _)| *name == "content-encoding");
        let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
        self.streams.push(Stream { stage: Stage::Here, headers: headers.clone(), body: Vec::new(), ended: end, plain });
        let route = Some(self.config.coordinator.clone().into_bytes());
        self.stream(request, Input::RequestHead { request, headers, route, end });
    }

    /// Delivers a piece of a request's body, if it may continue.
    pub fn data(&mut self, number: usize, chunk: Vec<u8>, end: bool) {
        let Some((request, stream)) = self.open(number) else { return };
        stream.body.extend_from_slice(&chunk);
        stream.ended = end;
        if end {
            self.explain(number);
        }
        self.stream(request, Input::RequestData { request, chunk, end });
    }

    /// Explains a request that has ended: the sums must be consistent, and the lists no longer than requested.
    fn explain(&self, number: usize) {
        let Some(Stream { headers, body, .. }) = number.checked_rem(self.streams.len()).map(|at| &self.streams[at])
        else {
            return;
        };
        let Some(told) = self.engine.explain(headers.clone(), body.clone(), 2) else { return };
        assert_eq!(told.operations, told.nodes.iter().map(|node| node.operations).sum::<u64>());
        assert_eq!(told.operations, told.left_out + told.listed.len() as u64);
        assert!(told.listed.len() <= 2 && told.shards.len() <= 2);
        assert_eq!(told.way == Way::PassedWhole, told.because.is_some());
        serde_json::to_string(&told).expect("an explanation is JSON");
    }

    /// Ends a request's body with trailers.
    pub fn trailers(&mut self, number: usize) {
        let Some((request, stream)) = self.open(number) else { return };
        stream.ended = true;
        self.stream(request, Input::RequestEnd { request });
    }

    /// Lets a client leave.
    pub fn gone(&mut self, number: usize) {
        let Some(number) = number.checked_rem(self.streams.len()) else { return };
        if self.streams[number].stage == Stage::Here {
            self.streams[number].stage = Stage::Gone;
            let request = RequestId(number as u32);
            self.stream(request, Input::RequestGone { request });
        }
    }

    /// Answers a call.
    pub fn answer(&mut self, number: usize, response: Response) {
        if let Some(Call { id, .. }) = self.take_call(number) {
            self.root(Input::CallAnswered { call: id, response });
        }
    }

    /// Answers a call as a cluster would.
    pub fn answer_well(&mut self, number: usize) {
        if let Some(call) = self.take_call(number) {
            let body = answer_to(&call).to_string().into_bytes();
            let headers = [("content-type".to_owned(), "application/json".to_owned())].into();
            self.root(Input::CallAnswered { call: call.id, response: Response { status: 200, headers, body } });
        }
    }

    /// Fails a call.
    pub fn fail(&mut self, number: usize, was_sent: bool) {
        if let Some(Call { id, .. }) = self.take_call(number) {
            self.root(if was_sent {
                Input::CallFailed { call: id }
            } else {
                Input::CallNotSent { call: id, has_upstream: true }
            });
        }
    }

    /// Answers a call that the engine never made, or that is over.
    pub fn answer_unknown(&mut self, number: u32) {
        let call = CallId(number);
        if !self.calls.contains_key(&call) {
            self.root(Input::CallAnswered { call, response: Response { status: 200, ..Response::default() } });
        }
    }

    /// Delivers a wake-up.
    pub fn wake(&mut self) {
        self.root(Input::Woken);
    }

    /// Advances the time, and fires the timer.
    pub fn tick(&mut self, after: Time) {
        self.now += after;
        self.root(Input::Tick);
    }

    /// Returns how many calls are in flight.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Ends the run without new requests, and with failed calls. Then everything must end, and nothing may be left
    /// over.
    pub fn end(mut self) {
        for number in 0..self.streams.len() {
            if !self.streams[number].ended {
                self.gone(number);
            }
        }
        let steps = (0..LAST_STEPS).take_while(|_| !self.step()).count();
        assert!(steps < LAST_STEPS, "it does not end: {:?}", self.engine);
        assert_eq!(self.engine.memory(), 0, "memory is left");
        let left = self.streams.iter().position(|stream| stream.stage == Stage::Here);
        assert_eq!(left, None, "a request is left without an answer");
        #[cfg(feature = "libfuzzer")]
        crate::tally::step(self.engine.worst());
    }

    /// Returns whether everything is over after one step.
    fn step(&mut self) -> bool {
        self.tick(Time::from_secs(3600));
        while !self.calls.is_empty() {
            self.fail(0, true);
        }
        self.wake();
        self.engine.is_idle()
    }

    /// Returns the request of that number among those whose bodies continue.
    fn open(&mut self, number: usize) -> Option<(RequestId, &mut Stream)> {
        let number = number.checked_rem(self.streams.len())?;
        let stream = self.streams.get_mut(number).filter(|stream| stream.stage == Stage::Here && !stream.ended)?;
        Some((RequestId(number as u32), stream))
    }

    fn take_call(&mut self, number: usize) -> Option<Call> {
        let id = *self.calls.keys().nth(number.checked_rem(self.calls.len())?)?;
        self.calls.remove(&id)
    }

    /// Handles an input in a stream's callback.
    fn stream(&mut self, handled: RequestId, input: Input) {
        let before = self.engine.memory();
        self.engine.handle(input, self.now);
        while let Some(command) = self.engine.poll_stream() {
            match command {
                Command::PassThrough { request, body } => {
                    assert_eq!(request, handled, "passed through in another's callback");
                    let stream = self.here(request);
                    assert_eq!(body.concat(), stream.body, "passed through with another body");
                    stream.stage = Stage::Passed;
                }
                Command::PassHeaders { request } => {
                    assert_eq!(request, handled, "its headers went on in another's callback");
                    assert!(self.here(request).body.is_empty(), "its headers went on after its body came");
                }
                // Its body is not shown to the engine, as if its client had left at once.
                Command::Observe { request } => {
                    assert_eq!(request, handled, "observed in another's callback");
                    self.here(request).stage = Stage::Passed;
                    self.engine.handle(Input::RequestGone { request }, self.now);
                }
                Command::Wake => {}
                other => panic!("{other:?} in a stream's callback"),
            }
        }
        self.check_memory(before);
    }

    /// Handles an input in a callback of the root.
    fn root(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        let mut answered = Vec::new();
        while let Some(command) = self.engine.poll_root() {
            match command {
                Command::Call(call) => self.call(call),
                Command::Reply { request, .. } => {
                    let stream = self.here(request);
                    assert!(stream.ended, "{request:?} was answered before it ended");
                    stream.stage = Stage::Answered;
                    answered.push(request);
                }
                Command::Resume { request } => {
                    assert!(self.here(request).body.is_empty(), "let go after its body came");
                }
                Command::Wake | Command::SetTimer(_) | Command::Warn(_) => {}
                other => panic!("{other:?} in the root's callback"),
            }
        }
        assert!(answered.len() <= REPLIES, "{} replies in one callback", answered.len());
        for request in answered {
            self.stream(request, Input::RequestGone { request });
        }
    }

    fn call(&mut self, call: Call) {
        assert_eq!(call.id, CallId(self.called), "calls are not numbered in sequence");
        self.called += 1;
        let shares_slots = |other: &&Call| {
            other.upstream == call.upstream && !is_query(other) && self.slots_of(other) == self.slots_of(&call)
        };
        let batches = self.calls.values().filter(shares_slots).count() + usize::from(!is_query(&call));
        assert!(batches <= self.config.dispatch.max_in_flight_per_node, "{batches} batches to {}", call.upstream);
        self.calls.insert(call.id, call);
    }

    /// Returns the identity of a batch, and whether it asks the cluster to wait.
    fn slots_of<'a>(&self, call: &'a Call) -> (Vec<&'a (String, String)>, bool) {
        let of = |wanted: &str| call.headers.iter().filter(|(name, _)| name == wanted).collect::<Vec<_>>();
        let identity = self.config.dispatch.identity.names().map(of).find(|found| !found.is_empty());
        let path = of(":path").first().map_or("", |(_, path)| path);
        let query = path.split_once('?').map_or("", |(_, query)| query);
        let waits = query.split('&').any(|parameter| {
            parameter == "refresh=wait_for" || parameter.split('=').next() == Some("wait_for_active_shards")
        });
        (identity.unwrap_or_default(), waits)
    }

    /// Returns a request that is not over.
    fn here(&mut self, request: RequestId) -> &mut Stream {
        let stream = self.streams.get_mut(request.0 as usize).expect("an unknown request");
        assert_eq!(stream.stage, Stage::Here, "{request:?} is over");
        stream
    }

    /// Checks that everything being read and all allocations are counted. Nothing may be taken in beyond the budget,
    /// which an answer may have exceeded before.
    fn check_memory(&self, before: u64) {
        assert_eq!(self.engine.uncounted(), None, "more is allocated than is counted");
        let most = self.config.limits.memory.max(before);
        let being_read =
            self.streams.iter().filter(|stream| stream.stage == Stage::Here && !stream.ended && stream.plain);
        let least = being_read.map(|stream| stream.body.len() as u64).sum();
        let memory = self.engine.memory();
        assert!((least..=most).contains(&memory), "{memory} bytes, expected {least} to {most}");
    }
}

fn is_query(call: &Call) -> bool {
    call.body.is_empty()
}

/// Returns a cluster's answer: three nodes, the index "i" with a shard on each, and its alias "a".
fn answer_to(call: &Call) -> Value {
    let path = call.headers.iter().find(|(name, _)| name == ":path").map(|(_, path)| path.as_str());
    if !is_query(call) {
        return success(&call.body);
    }
    let version = json!({"version": 1, "state_uuid": "u", "cluster_uuid": "c"});
    match path.expect("a call without a path") {
        path if path.starts_with("/_nodes/_local?") => {
            let id = call.upstream.replace("es-", "n");
            json!({"nodes": {id: {"name": call.upstream.as_ref()}}})
        }
        path if path.starts_with("/_alias?") => json!({"i": {"aliases": {"a": {}}}}),
        path if path.starts_with("/_cluster/settings?") => json!({}),
        path if path.starts_with("/_cluster/state/version?") => version,
        _ => {
            let shards: serde_json::Map<_, _> = (0..3)
                .map(|shard| {
                    let copy = json!([{"primary": true, "state": "STARTED", "node": format!("n{shard}")}]);
                    (shard.to_string(), copy)
                })
                .collect();
            let mut state = json!({
                "nodes": {
                    "n0": {"name": "es-0", "version": "9.5.3", "roles": ["ingest"]},
                    "n1": {"name": "es-1", "version": "9.5.3", "roles": []},
                    "n2": {"name": "es-2", "version": "9.5.3", "roles": ["ingest"]},
                },
                "metadata": {"ingest": {"pipeline": [
                    {"id": "p", "config": {"processors": [{"drop": {}}]}},
                    {"id": "q", "config": {"processors": [{"script": {}}]}},
                ]}, "indices": {"i": {
                    "version": 1, "state": "open", "routing_num_shards": 768, "aliases": ["a"],
                    "settings": {"index": {"uuid": "u", "number_of_shards": "3", "version": {"created": "136408127"}}},
                }}},
                "routing_table": {"indices": {"i": {"shards": shards}}},
            });
            let fields = [&mut state, &mut version.clone()]
                .map(|value| std::mem::take(value.as_object_mut().expect("an object")));
            fields.into_iter().flatten().collect()
        }
    }
}

/// Returns success for each operation of a batch.
fn success(batch: &[u8]) -> Value {
    let mut lines = batch.split_inclusive(|byte| *byte == b'\n');
    let mut items = Vec::new();
    while let Some(line) = lines.next() {
        let line = ActionLine::read(line).expect("a batch with a line that was not vouched for");
        if line.action.has_source() {
            lines.next().expect("a batch that ends in the middle of an operation");
        }
        let id = line.id.as_deref().unwrap_or("made");
        items.push(json!({line.action.name(): {"_index": "i", "_id": id, "status": 200}}));
    }
    json!({"took": 1, "errors": false, "items": items})
}
