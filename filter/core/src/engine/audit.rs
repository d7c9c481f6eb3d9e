//! Holds the account of memory against the allocator, in tests.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use allocation_counter::measure;

use crate::Time;
use crate::engine::Engine;
use crate::engine::command::{Call, Command, Headers, Response};
use crate::engine::input::Input;

/// An engine of which every byte that it allocates is compared with what it counts, after each step.
///
/// An input belongs to the engine from the moment when it is handed in, and a command until the next step.
#[derive(Debug)]
pub struct Audited {
    engine: Engine,
    /// Bytes that the engine has allocated and not given back.
    allocated: i64,
    /// The command that was handed out last.
    command: Option<Command>,
    worst: Step,
    largest_ratio: Step,
}

/// A step, by what it took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// Bytes allocated, at their peak within the step.
    pub allocated: u64,
    /// Bytes counted, at their peak.
    pub counted: u64,
}

/// What an engine takes without any request: the program's own tables, the routing table of a test, the last few heads
/// and callers.
pub const FIXED: u64 = 4 << 20;

/// Below so many bytes what is fixed is most of what is allocated.
const MUCH: u64 = 1 << 20;

impl Audited {
    /// An engine that was just made.
    pub fn new(engine: Engine) -> Self {
        Self { engine, allocated: 0, command: None, worst: Step::default(), largest_ratio: Step::default() }
    }

    /// [`Engine::handle`]
    pub fn handle(&mut self, input: Input, now: Time) {
        self.step(|engine| engine.handle(input.clone(), now));
    }

    /// [`Engine::poll_stream`]
    pub fn poll_stream(&mut self) -> Option<Command> {
        self.poll(Engine::poll_stream)
    }

    /// [`Engine::poll_root`]
    pub fn poll_root(&mut self) -> Option<Command> {
        self.poll(Engine::poll_root)
    }

    /// The step so far at which most was allocated for each byte that was counted, of those at which
    /// [much](MUCH) was.
    pub fn largest_ratio(&self) -> Step {
        self.largest_ratio
    }

    /// The step so far at which most was allocated beyond one and a half times what was counted.
    pub fn worst(&self) -> Step {
        self.worst
    }

    /// A step at which more was allocated than one and a half times what was counted, and what is fixed.
    pub fn uncounted(&self) -> Option<Step> {
        (self.worst.excess() > FIXED).then_some(self.worst)
    }

    fn poll(&mut self, poll: fn(&mut Engine) -> Option<Command>) -> Option<Command> {
        let mut command = None;
        self.step(|engine| command = poll(engine));
        let copy = command.as_ref().map(detached);
        self.command = command;
        copy
    }

    /// Lets the engine do something, and looks at what that took.
    fn step(&mut self, act: impl FnOnce(&mut Engine)) {
        self.engine.memory.take_high();
        let last = self.command.take();
        self.allocated = self.allocated.saturating_add(measure(|| drop(last)).bytes_current);
        let engine = &mut self.engine;
        let info = measure(|| act(engine));
        // The routing table is as large as the cluster makes it, and is no request's.
        if self.engine.take_state_work() {
            return;
        }
        let peak = self.allocated.saturating_add_unsigned(info.bytes_max);
        self.allocated = self.allocated.saturating_add(info.bytes_current);
        let step = Step { allocated: peak.max(0).unsigned_abs(), counted: self.engine.memory.take_high() };
        if step.excess() > self.worst.excess() {
            self.worst = step;
        }
        if step.counted >= MUCH && step.ratio() > self.largest_ratio.ratio() {
            self.largest_ratio = step;
        }
    }
}

impl Step {
    /// Bytes allocated for each byte counted.
    pub fn ratio(self) -> f64 {
        self.allocated as f64 / self.counted.max(1) as f64
    }

    /// Bytes that were allocated beyond one and a half times what was counted.
    pub fn excess(self) -> u64 {
        self.allocated.saturating_sub(self.counted.saturating_add(self.counted / 2))
    }
}

impl Deref for Audited {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl DerefMut for Audited {
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }
}

/// A copy that shares nothing with the engine's own, so that each is given back where it was allocated.
fn detached(command: &Command) -> Command {
    match command.clone() {
        Command::Call(call) => Command::Call(Call { headers: copied(&call.headers), ..call }),
        Command::Reply { request, response } => {
            Command::Reply { request, response: Response { headers: copied(&response.headers), ..response } }
        }
        other => other,
    }
}

fn copied(headers: &Headers) -> Headers {
    Rc::from(headers.to_vec())
}
