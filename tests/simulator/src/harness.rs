use std::time::Duration;

use bulk_reshuffle::engine::{Input, RequestId};
use bulk_reshuffle::routing::{SharedData, Unshared};

use crate::calls::Calls;
use crate::client::{Client, ROUTE};
use crate::cluster::Cluster;
use crate::coverage::Coverage;
use crate::event_queue::{Event, EventQueue};
use crate::fault::Fault;
use crate::fault_injector::FaultInjector;
use crate::layout::COORDINATOR;
use crate::ledger::{Ledger, Stage};
use crate::memory::Memory;
use crate::pauses::Pauses;
use crate::rng::Rng;
use crate::scenario::{Scenario, Sharing};
use crate::trace::Trace;
use crate::violation::{Promise, Violation};

/// The whole run: clients, engines and the connections between them, the cluster, and the clock.
#[derive(Debug)]
pub struct Harness {
    pub scenario: Scenario,
    pub rng: Rng,
    /// The current time, in milliseconds.
    pub now: u64,
    pub event_queue: EventQueue,
    pub cluster: Cluster,
    pub ledger: Ledger,
    pub calls: Calls,
    pub coverage: Coverage,
    pub trace: Trace,
    /// The engines, oldest first.
    pub machines: Vec<Machine>,
    /// The data that they share, if any.
    pub shared: Option<Memory>,
    /// The number of queries for the overview by all engines.
    pub asked: u64,
    /// The number of changes of the cluster.
    pub changed: u64,
    pub last_change: u64,
    /// The time of the last event of a request.
    pub moved: u64,
    /// The engine that takes new requests.
    newest: usize,
}

impl Harness {
    pub fn new(seed: u64, fault: Option<Fault>, trace: Trace) -> Result<Self, Violation> {
        let mut rng = Rng::new(seed);
        let mut scenario = Scenario::draw(&mut rng);
        if fault.is_some_and(|fault| !fault.is_about_the_state()) {
            // Runs that do not end would take long, with all the checks of shared data.
            scenario.sharing = Sharing::Nothing;
        }
        let mut operations = Vec::new();
        let clients: Vec<_> =
            (0..scenario.requests).map(|_| Client::draw(&mut rng, &scenario, &mut operations)).collect();
        let faults = if scenario.sharing == Sharing::Some { 3 } else { 0 };
        let shared = (scenario.sharing != Sharing::Nothing).then(|| Memory::new(faults, Rng::new(seed)));
        let mut machines = Vec::new();
        for (number, settings) in (0..).zip(&scenario.settings) {
            let memory: Box<dyn SharedData> = match &shared {
                Some(memory) => Box::new(memory.clone()),
                None => Box::new(Unshared),
            };
            let engine = FaultInjector::new(number, settings, fault, memory)
                .map_err(|error| Violation::of(Promise::Drained, format!("the configuration is refused: {error}")))?;
            machines.push(Machine::new(engine, Pauses::new(settings.header_pause), settings.memory));
        }
        let ledger = Ledger::new(clients, operations, &scenario);
        let mut harness = Self {
            scenario,
            rng,
            now: 0,
            event_queue: EventQueue::default(),
            cluster: Cluster::new(),
            ledger,
            calls: Calls::default(),
            coverage: Coverage::default(),
            trace,
            machines,
            shared,
            asked: 0,
            changed: 0,
            last_change: 0,
            moved: 0,
            newest: 0,
        };
        harness.plan_run();
        Ok(harness)
    }

    fn plan_run(&mut self) {
        let spread = self.scenario.spread;
        // The first request finds no state, so most of the others arrive later.
        for number in 0..self.ledger.requests.len() {
            let warm_up = if number == 0 { 0 } else { self.scenario.latency.saturating_mul(2).saturating_add(50) };
            let at = warm_up.saturating_add(self.rng.up_to(spread));
            self.plan(at, Event::Head(number));
        }
        let duration = spread.saturating_add(self.scenario.latency.saturating_mul(8));
        for _ in 0..self.scenario.changes {
            let at = self.rng.up_to(duration);
            self.plan(at, Event::Change);
        }
        for _ in 0..self.scenario.disturbances {
            let at = self.rng.up_to(duration);
            let engine = self.rng.up_to(self.machines.len().saturating_sub(1) as u64) as usize;
            self.plan(at, Event::Disturb(engine));
        }
        for _ in 0..self.scenario.deaths {
            let (at, answers) = (self.rng.up_to(duration), self.rng.up_to(4));
            self.plan(at, Event::Die(answers as usize));
        }
        for _ in 1..self.machines.len() {
            let at = self.rng.up_to(duration);
            self.plan(at, Event::TakeOver);
        }
    }

    pub fn plan(&mut self, after: u64, event: Event) {
        self.event_queue.add(self.now.saturating_add(after), event, &mut self.rng);
    }

    /// Returns the current time as engines use it.
    pub fn time(&self) -> Duration {
        Duration::from_millis(self.now)
    }

    /// Returns an engine.
    pub fn machine(&mut self, engine: usize) -> Result<&mut Machine, Violation> {
        self.machines
            .get_mut(engine)
            .ok_or_else(|| Violation::of(Promise::Drained, format!("there is no engine {engine}")))
    }

    /// Processes the next event. Returns `false` if there is none.
    pub fn step(&mut self) -> Result<bool, Violation> {
        let Some((now, event)) = self.event_queue.next() else { return Ok(false) };
        self.now = self.now.max(now);
        if event.is_of_a_request() {
            self.moved = self.now;
        }
        // There are too many of these to be useful.
        if !matches!(event, Event::Tick(..) | Event::Body(_)) {
            self.trace.add(self.now, || format!("{event:?}"));
        }
        match event {
            Event::Head(number) => self.head(number)?,
            Event::Body(number) => self.body(number)?,
            Event::Leave(number) => self.leave(number)?,
            Event::Arrive(key) => self.arrive(key)?,
            Event::Return(key) => self.come_back(key)?,
            Event::Answer(key) => self.answer_query(key)?,
            Event::Wake(engine) => self.root(engine, Input::Woken)?,
            Event::Tick(engine, timer) => self.tick(engine, timer)?,
            Event::Change => {
                let what = self.cluster.change(&mut self.rng);
                (self.changed, self.last_change) = (self.changed.saturating_add(1), self.now);
                self.ledger.redirects |= what == "node left";
                self.coverage.count(&format!("cluster: {what}"));
            }
            Event::Disturb(engine) => self.disturb(engine)?,
            Event::Die(answers) => self.die(answers)?,
            Event::TakeOver => {
                self.newest = self.newest.saturating_add(1);
                self.coverage.count("engine: replaced by a new one");
            }
        }
        self.check_counted()?;
        Ok(true)
    }

    fn disturb(&mut self, engine: usize) -> Result<(), Violation> {
        let Some(machine) = self.machines.get_mut(engine) else { return Ok(()) };
        let disturbance = machine.engine.disturb(&mut self.rng);
        self.coverage.count(&format!("engine: {}", disturbance.name()));
        self.trace.add(self.now, || format!("  {disturbance:?}"));
        self.root(engine, Input::Woken)
    }

    fn head(&mut self, number: usize) -> Result<(), Violation> {
        let engine = self.newest;
        let leaves = self.rng.percent(self.scenario.leavers);
        let request = self.ledger.request(number)?;
        (request.engine, request.stage) = (engine, Stage::Here);
        let (headers, end) = (request.client.headers.clone(), request.client.bodiless);
        let elsewhere = request.client.oddity == Some(ROUTE);
        if let Some(oddity) = request.client.oddity {
            self.coverage.count(&format!("client: {oddity}"));
        }
        if end {
            request.complete = Some(self.now);
        }
        if leaves {
            let after = self.rng.up_to(self.scenario.latency.saturating_mul(3));
            self.plan(after, Event::Leave(number));
        }
        let to: Option<&str> = if elsewhere { self.rng.one_of(&[None, Some("es-0")]) } else { Some(COORDINATOR) };
        let route = to.map(Into::into);
        self.stream(number, Input::RequestHead { request: RequestId(number as u32), headers, route, end })?;
        if end { Ok(()) } else { self.begin_body(number) }
    }

    /// Starts delivering the body, at once or after a while, unless Envoy holds it back with the headers.
    fn begin_body(&mut self, number: usize) -> Result<(), Violation> {
        let request = self.ledger.request(number)?;
        if request.stage == Stage::Here && !request.headers_gone {
            let engine = request.engine;
            let pauses = self.machine(engine)?.pauses;
            pauses.held(number)?;
            self.ledger.request(number)?.was_suspected = pauses == Pauses::Suspected;
            if !self.scenario.stops {
                return Ok(());
            }
        }
        let after = if self.rng.percent(5) { self.rng.up_to(self.scenario.latency) } else { 0 };
        self.plan(after, Event::Body(number));
        Ok(())
    }

    fn body(&mut self, number: usize) -> Result<(), Violation> {
        let in_crumbs = (number as u64).wrapping_mul(37) % 100 < self.scenario.crumbs;
        let size = if in_crumbs { self.rng.one_of(&[0, 1, 1, 1, 7]) } else { self.rng.one_of(&[60, 1_000, 1 << 20]) };
        let says_end = self.rng.percent(80);
        let pause = if self.rng.percent(5) { self.rng.up_to(self.scenario.latency) } else { 0 };
        let now = self.now;
        let request = self.ledger.request(number)?;
        if request.stage != Stage::Here || request.complete.is_some() {
            return Ok(());
        }
        let rest = request.client.body.get(request.fed..).unwrap_or_default();
        let chunk = rest.get(..size).unwrap_or(rest).to_vec();
        let is_last = chunk.len() == rest.len();
        let id = RequestId(number as u32);
        let input = match rest {
            // The body has already ended with its last piece, which did not say so.
            [] if request.fed > 0 && number.is_multiple_of(2) => Input::RequestEnd { request: id },
            _ => Input::RequestData { request: id, chunk, end: is_last && (says_end || rest.is_empty()) },
        };
        match &input {
            Input::RequestData { chunk, end, .. } => {
                request.fed = request.fed.saturating_add(chunk.len());
                request.complete = end.then_some(now);
            }
            _ => request.complete = Some(now),
        }
        let is_complete = request.complete.is_some();
        let (engine, let_go, was_suspected) = (request.engine, request.let_go, request.was_suspected);
        self.machine(engine)?.pauses.body(let_go.map(|at| now.saturating_sub(at)), was_suspected);
        self.stream(number, input)?;
        if is_complete {
            self.trace.add(self.now, || format!("  request {number} has arrived completely"));
        } else {
            self.plan(pause, Event::Body(number));
        }
        Ok(())
    }

    fn leave(&mut self, number: usize) -> Result<(), Violation> {
        let request = self.ledger.request(number)?;
        if request.stage != Stage::Here {
            return Ok(());
        }
        request.stage = Stage::Gone;
        let when = match (request.complete, request.shares.is_empty()) {
            (None, _) => "while it was read",
            (Some(_), true) => "while it was held",
            (Some(_), false) => "after some of it was sent",
        };
        self.coverage.count(&format!("client: left {when}"));
        self.stream(number, Input::RequestGone { request: RequestId(number as u32) })
    }

    /// Checks that everything held is counted.
    fn check_counted(&self) -> Result<(), Violation> {
        for (number, machine) in self.machines.iter().enumerate() {
            let (least, memory) = (self.ledger.held(number), machine.engine.memory());
            Violation::unless(memory >= least, Promise::Memory, || {
                format!("{memory} bytes are counted, but at least {least} are held")
            })?;
            let uncounted = machine.engine.uncounted();
            Violation::unless(uncounted.is_none(), Promise::Memory, || {
                format!("some memory is not counted: {uncounted:?}")
            })?;
        }
        Ok(())
    }

    /// Returns whether every request is over, and every engine has been idle since then. They need not be idle at the
    /// same moment, because they keep polling the cluster's state.
    pub fn is_over(&mut self) -> bool {
        if self.ledger.drained().is_err() {
            return false;
        }
        for machine in &mut self.machines {
            machine.rests |= machine.engine.is_idle();
        }
        self.machines.iter().all(|machine| machine.rests)
    }

    /// Checks that at the end nothing is left.
    pub fn check_end(&mut self) -> Result<(), Violation> {
        self.ledger.drained()?;
        for machine in &self.machines {
            self.coverage.step(machine.engine.largest_ratio());
            let (rests, left) = (machine.rests, machine.engine.memory());
            Violation::unless(rests && left == 0, Promise::Drained, || {
                format!("an engine is left with {left} bytes, idle: {rests}")
            })?;
        }
        Ok(())
    }
}

/// An engine and its timer.
#[derive(Debug)]
pub struct Machine {
    pub engine: FaultInjector,
    /// The engine's possible knowledge of held headers.
    pub pauses: Pauses,
    /// The number of timers that were set.
    pub timer: u64,
    /// The period of the ticks, in milliseconds.
    pub period: u64,
    /// Whether it has begun to learn the cluster's layout.
    pub learns: bool,
    /// Whether it was idle after the last request.
    pub rests: bool,
    /// The maximum memory that it may take, in bytes: its budget and one request.
    pub most_memory: u64,
}

impl Machine {
    pub fn new(engine: FaultInjector, pauses: Pauses, most_memory: u64) -> Self {
        Self { engine, pauses, timer: 0, period: 0, learns: false, rests: false, most_memory }
    }
}
