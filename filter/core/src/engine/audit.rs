//! Compares the memory account with the allocator, in tests.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use allocation_counter::measure;

use crate::Time;
use crate::engine::Engine;
use crate::engine::command::{Call, Command, Headers, Response};
use crate::engine::input::Input;

/// An engine whose allocated bytes are compared with its counted bytes after each step.
///
/// An input belongs to the engine from the moment it is passed in, and a command belongs to it until the next step.
#[derive(Debug)]
pub struct Audited {
    engine: Engine,
    /// Bytes that the engine has allocated and not freed.
    allocated: i64,
    /// The last command that was handed out.
    command: Option<Command>,
    worst: Step,
    largest_ratio: Step,
}

/// The memory use of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// The peak of allocated bytes within the step.
    pub allocated: u64,
    /// The peak of counted bytes within the step.
    pub counted: u64,
}

/// The bytes that an engine uses without any request: the program's own tables, the routing table of a test, the last
/// few heads and callers.
pub const FIXED: u64 = 4 << 20;

/// Below this number of counted bytes, the fixed part dominates the allocated bytes.
const MUCH: u64 = 1 << 20;

impl Audited {
    /// Wraps a new engine.
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

    /// Returns the step with the highest ratio of allocated to counted bytes, of those that counted at least `MUCH`.
    pub fn largest_ratio(&self) -> Step {
        self.largest_ratio
    }

    /// Returns the step with the most allocated bytes beyond 1.5 times the counted bytes.
    pub fn worst(&self) -> Step {
        self.worst
    }

    /// Returns the worst step if it allocated more than 1.5 times the counted bytes plus `FIXED`.
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

    /// Lets the engine act, and records the memory that the step used.
    fn step(&mut self, act: impl FnOnce(&mut Engine)) {
        self.engine.memory.take_high();
        let last = self.command.take();
        self.allocated = self.allocated.saturating_add(measure(|| drop(last)).bytes_current);
        let engine = &mut self.engine;
        let info = measure(|| act(engine));
        // The size of the routing table depends on the cluster, and belongs to no request.
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
    /// Returns the number of allocated bytes for each counted byte.
    pub fn ratio(self) -> f64 {
        self.allocated as f64 / self.counted.max(1) as f64
    }

    /// Returns the allocated bytes beyond 1.5 times the counted bytes.
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

/// Returns a copy that shares nothing with the engine's command, so that each is freed where it was allocated.
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
