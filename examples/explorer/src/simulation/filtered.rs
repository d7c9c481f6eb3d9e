use std::collections::BTreeMap;
use std::time::Duration;

use bulk_reshuffle::bulk::ActionLine;
use bulk_reshuffle::config::{Compress, Config};
use bulk_reshuffle::engine::metrics::{Counter, MetricEvents};
use bulk_reshuffle::engine::{Call, CallId, Command, Engine, Input, RequestId, Response};

use super::Settings;
use super::arrivals::{Arrivals, Clients};
use super::directly::Nodes;
use super::event_queue::EventQueue;
use super::report::{Record, Run};
use crate::cluster::{Cluster, Unusable, headers};

#[derive(Debug)]
enum Event {
    Arrive(usize),
    /// The answer of a request that passed through.
    Answer(usize),
    Tick(usize),
    Wake(usize),
    /// The answer of a worker's call.
    Return(usize, CallId, Vec<u8>),
}

/// Simulates the requests through the filter. Each goes to a random worker.
pub fn run(cluster: &Cluster, arrivals: &Arrivals, settings: &Settings) -> Result<Run, Unusable> {
    let mut config = cluster.config().clone();
    config.hold.interval = Duration::from_secs_f64(settings.interval / 1000.0);
    config.hold.early_release = settings.early_release;
    config.dispatch.compress = Compress::Never;
    // The cluster does not change during the run.
    config.cluster_state.refresh = Duration::from_secs(1_000_000_000);
    let mut simulation = Simulation::new(cluster, arrivals, settings, &config)?;
    for (request, at) in arrivals.times().iter().enumerate() {
        simulation.events.add(*at, Event::Arrive(request));
    }
    let mut now = 0;
    // The timers continue after the last request.
    while simulation.left > 0
        && let Some((at, event)) = simulation.events.next()
    {
        now = at;
        simulation.handle(event, now);
    }
    Ok(simulation.record.into_run(&simulation.nodes.list, arrivals, now))
}

struct Simulation<'a> {
    arrivals: &'a Arrivals,
    settings: &'a Settings,
    workers: Vec<Engine>,
    /// The time of each worker's current timer; earlier timers are ignored.
    timers: Vec<u64>,
    events: EventQueue<Event>,
    clients: Clients,
    nodes: Nodes,
    record: Record,
    random: fastrand::Rng,
    /// The cluster to which every request's route leads.
    route: Vec<u8>,
    /// The number of unanswered requests.
    left: usize,
}

impl<'a> Simulation<'a> {
    fn new(
        cluster: &Cluster,
        arrivals: &'a Arrivals,
        settings: &'a Settings,
        config: &Config,
    ) -> Result<Self, Unusable> {
        let workers = (0..settings.workers).map(|worker| cluster.engine(config, worker));
        let workers = workers.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            arrivals,
            settings,
            timers: vec![0; workers.len()],
            workers,
            events: EventQueue::default(),
            clients: Clients::new(settings.clients),
            nodes: Nodes::new(arrivals),
            record: Record::default(),
            random: fastrand::Rng::with_seed(settings.seed ^ 0x5eed),
            route: config.coordinator.clone().into_bytes(),
            left: arrivals.times().len(),
        })
    }

    fn handle(&mut self, event: Event, now: u64) {
        match event {
            Event::Arrive(request) => {
                if let Some(request) = self.clients.arrive(request) {
                    self.send(request, now);
                }
            }
            Event::Answer(request) => self.answered(request, now),
            Event::Tick(worker) if self.timers.get(worker) == Some(&now) => self.root(worker, Input::Tick, now),
            Event::Tick(_) => {}
            Event::Wake(worker) => self.root(worker, Input::Woken, now),
            Event::Return(worker, call, body) => {
                let headers = [("content-type".to_owned(), "application/json".to_owned())].into();
                let response = Response { status: 200, headers, body };
                self.root(worker, Input::CallAnswered { call, response }, now);
            }
        }
    }

    /// Sends a client's request.
    fn send(&mut self, request: usize, now: u64) {
        let worker = self.random.usize(0..self.workers.len().max(1));
        let id = RequestId(request as u32);
        let body = self.arrivals.body(request);
        let (headers, route) = (headers(&self.arrivals.path, &body), Some(self.route.clone()));
        self.stream(worker, Input::RequestHead { request: id, headers, route, end: false }, now);
        self.stream(worker, Input::RequestData { request: id, chunk: body, end: true }, now);
    }

    fn stream(&mut self, worker: usize, input: Input, now: u64) {
        let Some(engine) = self.workers.get_mut(worker) else { return };
        engine.handle(input, Duration::from_micros(now));
        let (mut wakes, mut passed) = (false, None);
        while let Some(command) = engine.poll_stream() {
            match command {
                Command::PassThrough { request, .. } => passed = Some(request),
                Command::Wake => wakes = true,
                _ => {}
            }
        }
        if wakes {
            self.events.add(now, Event::Wake(worker));
        }
        if let Some(request) = passed {
            self.pass(worker, request, now);
        }
    }

    /// Passes a request through to a node, which forwards the other nodes' operations.
    fn pass(&mut self, worker: usize, request: RequestId, now: u64) {
        let number = request.0 as usize;
        self.record.passed_whole = self.record.passed_whole.saturating_add(1);
        let done = self.nodes.take(&self.arrivals.shares(number), now, self.settings, &mut self.record);
        self.events.add(done, Event::Answer(number));
        self.stream(worker, Input::RequestGone { request }, now);
    }

    fn root(&mut self, worker: usize, input: Input, now: u64) {
        let Some(engine) = self.workers.get_mut(worker) else { return };
        engine.handle(input, Duration::from_micros(now));
        let (mut calls, mut replies) = (Vec::new(), Vec::new());
        engine.take_events(&mut MetricEvents::default());
        while let Some(command) = engine.poll_root() {
            match command {
                Command::Call(call) => calls.push((call, requests(engine))),
                Command::Reply { request, .. } => replies.push(request),
                Command::Wake => self.events.add(now, Event::Wake(worker)),
                Command::SetTimer(after) => {
                    // A timer never fires twice at the same time.
                    let at = now.saturating_add(after.as_micros() as u64).max(now.saturating_add(1));
                    if let Some(timer) = self.timers.get_mut(worker) {
                        *timer = at;
                    }
                    self.events.add(at, Event::Tick(worker));
                }
                _ => {}
            }
        }
        for (call, requests) in calls {
            self.execute(worker, &call, requests, now);
        }
        for request in replies {
            self.stream(worker, Input::RequestGone { request }, now);
            self.answered(request.0 as usize, now);
        }
    }

    fn answered(&mut self, request: usize, now: u64) {
        self.left = self.left.saturating_sub(1);
        self.record.answered(self.arrivals, request, now);
        if let Some(next) = self.clients.answered() {
            self.send(next, now);
        }
    }

    /// Executes a batch at its node.
    fn execute(&mut self, worker: usize, call: &Call, requests: u64, now: u64) {
        let (operations, answer) = answer(&call.body);
        let node = self.arrivals.by_upstream.get(call.upstream.as_ref());
        let done = match node.and_then(|node| self.nodes.list.get_mut(*node)) {
            Some(node) => {
                self.record.batch(operations, requests);
                node.execute(operations, now, self.settings)
            }
            // The coordinator: the owners of these operations are unknown.
            None => self.nodes.take(&BTreeMap::from([(None, operations)]), now, self.settings, &mut self.record),
        };
        self.events.add(done, Event::Return(worker, call.id, answer));
    }
}

/// Returns the number of requests with operations in the batch that was counted last.
fn requests(engine: &mut Engine) -> u64 {
    let mut events = MetricEvents::default();
    engine.take_events(&mut events);
    let counts = events.counts.into_iter();
    counts.filter(|(counter, _)| matches!(counter, Counter::BatchRequests(_))).map(|(_, count)| count).sum()
}

/// Returns the number of operations of a batch, and the answer of a node that executes all of them.
fn answer(batch: &[u8]) -> (u64, Vec<u8>) {
    let mut answer = br#"{"took":1,"errors":false,"items":["#.to_vec();
    let (mut operations, mut lines) = (0_u64, batch.split(|byte| *byte == b'\n'));
    while let Some(line) = lines.next() {
        let Ok(line) = ActionLine::read(line) else { continue };
        if operations > 0 {
            answer.push(b',');
        }
        let id = serde_json::Value::from(line.id.as_deref().unwrap_or("made"));
        let item = format!(r#"{{"{}":{{"_index":"i","_id":{id},"status":200}}}}"#, line.action.name());
        answer.extend_from_slice(item.as_bytes());
        operations = operations.saturating_add(1);
        if line.action.has_source() {
            lines.next();
        }
    }
    answer.extend_from_slice(b"]}");
    (operations, answer)
}
