//! The model of Envoy: the callbacks of streams and roots, and the execution of their commands.

use std::time::Duration;

use bulk_reshuffle::engine::metrics::Counter;
use bulk_reshuffle::engine::{Command, Input, PassThrough, RequestId};

use crate::client::NO_BULK;
use crate::event_queue::Event;
use crate::harness::Harness;
use crate::violation::{Promise, Violation};

/// The maximum number of replies after one input.
const REPLIES: usize = 64;

impl Harness {
    /// Fires the timer of an engine.
    pub fn tick(&mut self, engine: usize, timer: u64) -> Result<(), Violation> {
        let late = if self.scenario.punctual { 0 } else { self.rng.one_of(&[0, 0, 1, 50]) };
        let machine = self.machine(engine)?;
        if machine.timer != timer {
            return Ok(());
        }
        // Envoy's timers are periodic.
        let next = machine.period.saturating_add(late);
        self.plan(next, Event::Tick(engine, timer));
        if !self.scenario.punctual && self.rng.percent(20) {
            self.coverage.count("engine: a tick was lost");
            return Ok(());
        }
        self.root(engine, Input::Tick)
    }

    /// Handles an input in a callback of a stream.
    pub fn stream(&mut self, number: usize, input: Input) -> Result<(), Violation> {
        let engine = self.ledger.request(number)?.engine;
        let time = self.time();
        let (held, left) = (self.machine(engine)?.engine.memory(), self.machine(engine)?.engine.memory_left());
        self.machine(engine)?.engine.handle(input, time);
        let mut passed = None;
        while let Some(command) = self.machine(engine)?.engine.poll_stream() {
            match command {
                Command::PassThrough { request, body } => {
                    self.ledger.passed(request.0 as usize, number, &body.concat())?;
                    self.trace.add(self.now, || format!("  request {number} passes through"));
                    passed = Some((number, left));
                }
                Command::PassHeaders { request } => {
                    self.machine(engine)?.pauses.gone(number)?;
                    self.ledger.request(request.0 as usize)?.headers_gone = true;
                    self.coverage.count("headers: went on at once");
                }
                Command::Wake => self.wake(engine),
                other => return Err(Violation::of(Promise::Bounds, format!("{other:?} in a stream's callback"))),
            }
        }
        self.check_memory(engine, held)?;
        self.take_metrics(engine, passed)
    }

    /// Checks that the engine takes in only what it has room for. Answers that wait for others may exceed the limit.
    fn check_memory(&mut self, engine: usize, before: u64) -> Result<(), Violation> {
        let machine = self.machine(engine)?;
        let (held, most) = (machine.engine.memory(), machine.most_memory);
        Violation::unless(held <= most.max(before), Promise::Memory, || {
            format!("{held} bytes are held, at most {most} are allowed")
        })
    }

    /// Handles an input in a callback of an engine's root.
    pub fn root(&mut self, engine: usize, input: Input) -> Result<(), Violation> {
        let time = self.time();
        self.machine(engine)?.engine.handle(input, time);
        let mut answered = Vec::new();
        while let Some(command) = self.machine(engine)?.engine.poll_root(time) {
            match command {
                Command::Call(call) => self.call(engine, call)?,
                Command::Reply { request, response } => {
                    let number = request.0 as usize;
                    self.trace.add(self.now, || format!("  request {number} is answered with {}", response.status));
                    let was_original = self.ledger.replied(number, &response)?;
                    if was_original {
                        self.coverage.count(&format!("document: answered by the original {}", response.status));
                    }
                    self.coverage.count(&format!("reply: {}", response.status));
                    self.count_errors(&response.body);
                    answered.push(number);
                }
                Command::Wake => self.wake(engine),
                Command::SetTimer(after) => self.set_timer(engine, after)?,
                Command::Warn(_) => self.coverage.count("engine: warned"),
                Command::LogField { .. } => {}
                Command::Measure { request, .. } => {
                    let detail = format!("request {} expects an admin page", request.0);
                    return Err(Violation::of(Promise::Bounds, detail));
                }
                Command::Resume { request } => self.let_go(engine, request.0 as usize)?,
                Command::PassThrough { request, .. }
                | Command::PassHeaders { request }
                | Command::Observe { request } => {
                    let detail = format!("request {} passed through outside its callback", request.0);
                    return Err(Violation::of(Promise::PassedWhole, detail));
                }
            }
        }
        let most = answered.len();
        Violation::unless(most <= REPLIES, Promise::Bounds, || format!("{most} replies in one callback"))?;
        if most == REPLIES {
            self.coverage.count("reply: as many in one callback as may be");
            self.let_some_leave();
        }
        self.take_metrics(engine, None)?;
        // An answered stream is over once the callback has returned.
        answered
            .into_iter()
            .try_for_each(|number| self.stream(number, Input::RequestGone { request: RequestId(number as u32) }))
    }

    /// Lets the headers of a request continue. Its body may then arrive.
    fn let_go(&mut self, engine: usize, number: usize) -> Result<(), Violation> {
        self.machine(engine)?.pauses.let_go(number)?;
        self.ledger.let_go(number, self.now)?;
        self.coverage.count("headers: were let go");
        if !self.scenario.stops {
            let after = if self.scenario.punctual { 0 } else { self.rng.up_to(30) };
            self.plan(after, Event::Body(number));
        }
        Ok(())
    }

    /// Lets some clients leave whose answers wait for the next callback.
    fn let_some_leave(&mut self) {
        for number in 0..self.ledger.requests.len() {
            if self.rng.percent(20) {
                self.plan(0, Event::Leave(number));
            }
        }
    }

    fn count_errors(&mut self, body: &[u8]) {
        let body = String::from_utf8_lossy(body);
        for kind in ["bulk_outcome_unknown_exception", "no_upstream_exception", "es_rejected_execution_exception"] {
            if body.contains(kind) {
                self.coverage.count(&format!("reply: with {kind}"));
            }
        }
        if body.contains(r#""status":20"#) && body.contains(r#""error""#) {
            self.coverage.count("reply: with success and failure");
        }
    }

    fn wake(&mut self, engine: usize) {
        // A tick replaces a lost wake-up, so there must be a timer.
        let may_be_lost = self.machines.get(engine).is_some_and(|machine| machine.timer > 0);
        if may_be_lost && !self.scenario.punctual && self.rng.percent(20) {
            self.coverage.count("engine: a wake-up was lost");
            return;
        }
        let after = if self.scenario.punctual { self.rng.up_to(1) } else { self.rng.up_to(30) };
        self.plan(after, Event::Wake(engine));
    }

    fn set_timer(&mut self, engine: usize, after: Duration) -> Result<(), Violation> {
        let machine = self.machine(engine)?;
        machine.timer = machine.timer.saturating_add(1);
        machine.period = (after.as_millis() as u64).max(1);
        let (period, timer) = (machine.period, machine.timer);
        self.plan(period, Event::Tick(engine, timer));
        Ok(())
    }

    fn take_metrics(&mut self, engine: usize, passed: Option<(usize, u64)>) -> Result<(), Violation> {
        let metrics = self.machine(engine)?.engine.take_events().counts;
        let (mut has_reason, mut refused) = (false, 0);
        for (metric, times) in metrics {
            match (metric, passed) {
                (Counter::RequestsPassedThrough(why), Some((number, left))) => {
                    has_reason = true;
                    self.ledger.passed_because(number, why.name(), left)?;
                    self.coverage.add(&format!("passed through: {}", why.name()), times);
                }
                (Counter::RequestsPassedThrough(why), None) => {
                    Violation::unless(why == PassThrough::HeaderPause, Promise::PassedWhole, || {
                        format!("a request is counted as passed through because of {why:?}, but none passed through")
                    })?;
                    self.coverage.add("passed through: header_pause", times);
                }
                (Counter::DocumentsMerged, _) => self.coverage.add("document: merged", times),
                (Counter::DocumentsRefused, _) => refused = times,
                (Counter::RequestsMerged, _) => self.coverage.add("outcome: merged", times),
                (Counter::RequestsAbandoned, _) => self.coverage.add("outcome: abandoned", times),
                (Counter::StateLoads, _) => self.coverage.add("state: loaded", times),
                (Counter::StateTakeovers, _) => {
                    self.machine(engine)?.learns = true;
                    self.coverage.add("state: taken over", times);
                }
                (Counter::StateErrors, _) => self.coverage.add("state: errors", times),
                _ => {}
            }
        }
        self.ledger.check_originals(refused)?;
        let Some((number, _)) = passed.filter(|_| !has_reason) else { return Ok(()) };
        let disturbed = self.ledger.disturbed;
        let request = self.ledger.request(number)?;
        let may_be = request.client.oddity == Some(NO_BULK)
            || request.let_go.is_some()
            || (disturbed && request.client.document.is_some());
        Violation::unless(may_be, Promise::PassedWhole, || {
            format!("request {number} passed through and was not counted")
        })
    }
}
