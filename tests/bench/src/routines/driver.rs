use std::rc::Rc;
use std::time::Duration;

use bulk_reshuffle::Time;
use bulk_reshuffle::config::Config;
use bulk_reshuffle::engine::metrics::MetricEvents;
use bulk_reshuffle::engine::{Call, CallId, Command, Engine, Input, Origin, RequestId, Response};
use bulk_reshuffle::routing::{RoutingTable, Unshared};

use super::{Cluster, node_answer};

const ORIGIN: Origin = Origin { since_epoch: Duration::from_secs(1_700_000_000), vm: [7; 6] };

/// The shipped configuration.
pub const CONFIG: &str = r#"{"coordinator": "es", "nodes": {"upstream": "{name}"}}"#;

/// The same with one Envoy cluster for all nodes.
pub const ONE_CLUSTER: &str = r#"{"coordinator": "es", "nodes": {"header": "x-bulk-reshuffle-node"}}"#;

/// The time, which stands still unless a test advances it: the state never needs another refresh.
const NOW: Time = Time::from_secs(1);

/// The headers that a client library sends.
const HEADERS: &[(&str, &str)] = &[
    (":method", "POST"),
    (":path", "/_bulk"),
    (":authority", "elasticsearch:9200"),
    (":scheme", "http"),
    ("accept", "application/vnd.elasticsearch+json; compatible-with=8"),
    ("accept-encoding", "gzip, deflate"),
    ("authorization", "ApiKey dGhpcy1pcy1ubzphLXJlYWwta2V5LWJ1dC1hcy1sb25n"),
    ("content-type", "application/vnd.elasticsearch+x-ndjson; compatible-with=8"),
    ("user-agent", "elasticsearch-py/8.19.3 (Python/3.12.3; elastic-transport/8.17.1)"),
    ("x-elastic-client-meta", "es=8.19.3,py=3.12.3,t=8.17.1,ur=2.2.3"),
    ("x-forwarded-proto", "http"),
    ("x-request-id", "4ee64c4e-9ea4-4a8b-9b5e-0d7d2e4f4a11"),
];

/// An engine that knows its cluster, driven as the shell drives it.
#[derive(Debug)]
pub struct Driver {
    engine: Engine,
    events: MetricEvents,
    next_request: u32,
    /// The number of requests without an answer.
    unanswered: usize,
    /// Whether the engine has requested a wake-up.
    is_waking: bool,
    /// The current time.
    pub now: Time,
    /// The time of the engine's next tick.
    pub timer: Option<Time>,
    /// The calls that it has sent to upstreams.
    pub calls: Vec<Call>,
    /// The answers that it has sent to clients.
    pub replies: Vec<(RequestId, Response)>,
}

impl Default for Driver {
    fn default() -> Self {
        Self::new(Cluster::SMALL)
    }
}

impl Driver {
    /// Creates an engine with this cluster and no request.
    pub fn new(cluster: Cluster) -> Self {
        Self::configured(cluster, CONFIG)
    }

    /// Does the same with this configuration.
    pub fn configured(cluster: Cluster, config: &str) -> Self {
        let config = Config::read(config.as_bytes()).expect("a configuration");
        let engine = Engine::new(config, ORIGIN, Box::new(Unshared));
        let mut driver = Self {
            engine,
            events: MetricEvents::default(),
            next_request: 0,
            unanswered: 0,
            is_waking: false,
            now: NOW,
            timer: None,
            calls: Vec::new(),
            replies: Vec::new(),
        };
        // The first request passes through, and makes the engine poll the cluster.
        driver.request(&[], Vec::new()).into_iter().for_each(|input| driver.in_stream(input));
        driver.unanswered = 0;
        driver.wake();
        while let Some(query) = driver.calls.pop() {
            driver.answer(query.id, cluster.answer(&query));
        }
        assert!(driver.engine.table().is_some() && driver.engine.is_idle());
        driver
    }

    /// Returns the most bytes of requests and answers that the engine has counted at once.
    pub fn memory_peak(&self) -> u64 {
        self.engine.memory_peak()
    }

    /// Returns the routing table.
    pub fn table(&self) -> &RoutingTable {
        self.engine.table().expect("a table")
    }

    /// Returns the inputs of a new request with further headers and a body that arrives in these chunks.
    pub fn request(&mut self, further: &[(&str, &str)], chunks: Vec<Vec<u8>>) -> Vec<Input> {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.unanswered += 1;
        let length = chunks.iter().map(Vec::len).sum::<usize>().to_string();
        let headers = HEADERS.iter().chain(further).copied().chain([("content-length", length.as_str())]);
        let headers = headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).collect();
        let (last, route) = (chunks.len(), Some(b"es".to_vec()));
        let head = Input::RequestHead { request, headers, route, end: false };
        let data = (1..).zip(chunks).map(|(number, chunk)| Input::RequestData { request, chunk, end: number == last });
        [head].into_iter().chain(data).collect()
    }

    /// Handles an input in a callback of a stream.
    pub fn in_stream(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        while let Some(command) = self.engine.poll_stream() {
            self.carry_out(command);
        }
        self.show();
    }

    /// Performs the requested wake-ups until there are none.
    pub fn wake(&mut self) {
        while std::mem::take(&mut self.is_waking) {
            self.in_root(Input::Woken);
        }
    }

    /// Performs the tick that the engine has set its timer for.
    pub fn tick(&mut self) {
        self.timer = None;
        self.in_root(Input::Tick);
        self.wake();
    }

    /// Handles an upstream's answer, and its consequences.
    pub fn answer(&mut self, call: CallId, body: Vec<u8>) {
        self.answer_from(call, None, body);
    }

    /// Does the same for the answer of the node that the call has named, which its header names too.
    pub fn answer_from(&mut self, call: CallId, node: Option<(Rc<str>, Rc<str>)>, body: Vec<u8>) {
        let content = ("content-type".to_owned(), "application/json; charset=UTF-8".to_owned());
        let node = node.map(|(header, address)| (header.as_ref().to_owned(), address.as_ref().to_owned()));
        let headers = [content].into_iter().chain(node).collect();
        self.in_root(Input::CallAnswered { call, response: Response { status: 200, headers, body } });
        self.wake();
    }

    /// Answers all calls in flight, and lets the clients leave with their answers.
    pub fn settle(&mut self) {
        while !self.calls.is_empty() {
            for call in std::mem::take(&mut self.calls) {
                let answer = node_answer::answer(node_answer::documents(&call.body));
                self.answer_from(call.id, call.node, answer);
            }
        }
        self.let_clients_go();
        assert!(self.unanswered == 0 && self.engine.is_idle(), "a request was not answered");
    }

    /// Returns how many requests have no answer yet.
    pub fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// Lets the clients that have their answers leave.
    pub fn let_clients_go(&mut self) {
        for (request, response) in std::mem::take(&mut self.replies) {
            assert!(response.status == 200 && response.body.starts_with(br#"{"took":12,"errors":false"#));
            self.in_stream(Input::RequestGone { request });
            self.unanswered -= 1;
        }
    }

    fn in_root(&mut self, input: Input) {
        self.engine.handle(input, self.now);
        while let Some(command) = self.engine.poll_root() {
            self.carry_out(command);
        }
        self.show();
    }

    /// Applies what has happened, as the shell would.
    fn show(&mut self) {
        if self.engine.is_due() {
            self.engine.take_events(&mut self.events);
        }
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Call(call) => self.calls.push(call),
            Command::Reply { request, response } => self.replies.push((request, response)),
            Command::Wake => self.is_waking = true,
            Command::SetTimer(after) => self.timer = Some(self.now + after),
            _ => {}
        }
    }
}
