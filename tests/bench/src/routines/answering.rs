use bulk_reshuffle::engine::{Call, CallId};

use super::documents::{bodies, chunks};
use super::driver::Driver;
use super::{Cluster, Load, Routine, node_answer};

/// The handling of the nodes' answers, by the engine as the shell drives it: cutting, checking and merging them, until
/// the clients have their answers.
pub struct Answering {
    driver: Driver,
    bodies: Vec<Vec<u8>>,
    chunk: usize,
    ready: Vec<(CallId, Vec<u8>)>,
    bytes: usize,
}

impl Answering {
    /// Creates the routine for requests whose bodies came in chunks of `chunk` bytes.
    pub fn new(load: Load, chunk: usize) -> Self {
        Self { driver: Driver::new(Cluster::SMALL), bodies: bodies(load), chunk, ready: Vec::new(), bytes: 0 }
    }
}

impl Routine for Answering {
    fn prepare(&mut self) {
        self.driver.settle();
        for body in &self.bodies {
            let inputs = self.driver.request(&[], chunks(body, self.chunk));
            inputs.into_iter().for_each(|input| self.driver.in_stream(input));
        }
        self.driver.wake();
        let answer = |call: Call| (call.id, node_answer::answer(node_answer::documents(&call.body)));
        self.ready = self.driver.calls.drain(..).map(answer).collect();
        self.bytes = self.ready.iter().map(|(_, body)| body.len()).sum();
    }

    fn run(&mut self) {
        for (call, body) in self.ready.drain(..) {
            self.driver.answer(call, body);
        }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
