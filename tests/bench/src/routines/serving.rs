use std::collections::{BTreeSet, VecDeque};
use std::mem;

use bulk_reshuffle::engine::Input;
use bulk_reshuffle::routing::{Route, UpstreamId, hash};

use super::documents::{BYTES, body, chunks, id, index};
use super::driver::{CONFIG, Driver, ONE_CLUSTER};
use super::{CHUNK, Case, Routine, node_answer};

/// The handling of requests, from their headers until the clients leave with their answers, by the engine as the shell
/// drives it.
///
/// All requests arrive before a node answers: for each node the first leaves at once, and the others wait.
pub struct Serving {
    driver: Driver,
    bodies: Vec<Vec<u8>>,
    own_callers: bool,
    inputs: Vec<Vec<Input>>,
    /// The nodes' answers, call by call. They are the same in every run.
    answers: Vec<Vec<u8>>,
    ready: VecDeque<Vec<u8>>,
    waiting: usize,
    shares: usize,
    bytes: usize,
}

impl Serving {
    /// Creates the routine for a case's requests.
    pub fn new(case: &Case) -> Self {
        let config = if case.one_cluster { ONE_CLUSTER } else { CONFIG };
        let mut driver = Driver::configured(case.cluster, config);
        // The requests that wait all the time are for one node. The others then go to the other nodes.
        let (held, served): (Vec<usize>, Vec<usize>) =
            (0..4 * case.waiting + 2 * case.operations()).partition(|number| owner(&driver, *number, 1) == FIRST);
        for number in held.iter().take(case.waiting) {
            let inputs = driver.request(&[], vec![body(&[*number], 1, BYTES)]);
            inputs.into_iter().for_each(|input| driver.in_stream(input));
            driver.wake();
        }
        driver.calls.clear();
        assert_eq!(driver.unanswered(), case.waiting, "too few documents for one node");
        let all: Vec<usize> = (0..case.operations()).collect();
        let numbers = if case.waiting > 0 { &served } else { &all };
        let indices = if case.is_spread { case.cluster.indices } else { 1 };
        let requests = || numbers.chunks(case.documents).take(case.requests);
        let bodies: Vec<Vec<u8>> = requests().map(|numbers| body(numbers, indices, BYTES)).collect();
        let bytes = bodies.iter().map(Vec::len).sum();
        let owners = |numbers: &[usize]| numbers.iter().map(|number| owner(&driver, *number, indices)).collect();
        let shares = requests().map(|numbers| BTreeSet::len(&owners(numbers))).sum();
        Self {
            driver,
            bodies,
            own_callers: case.own_callers,
            inputs: Vec::new(),
            answers: Vec::new(),
            ready: VecDeque::new(),
            waiting: case.waiting,
            shares,
            bytes,
        }
    }

    /// Returns how many parts of requests the nodes receive.
    pub fn shares(&self) -> usize {
        self.shares
    }

    /// Returns how many batches leave in a run.
    pub fn batches(&self) -> usize {
        self.answers.len()
    }
}

impl Routine for Serving {
    fn prepare(&mut self) {
        self.ready = self.answers.iter().cloned().collect();
        self.inputs.clear();
        for (number, body) in self.bodies.iter().enumerate() {
            let value = if self.own_callers { number.to_string() } else { String::new() };
            self.inputs.push(self.driver.request(&[("x-opaque-id", &value)], chunks(body, CHUNK)));
        }
    }

    fn run(&mut self) {
        for inputs in self.inputs.drain(..) {
            inputs.into_iter().for_each(|input| self.driver.in_stream(input));
            self.driver.wake();
        }
        while !self.driver.calls.is_empty() {
            for call in mem::take(&mut self.driver.calls) {
                let answer = self.ready.pop_front().unwrap_or_else(|| {
                    self.answers.push(node_answer::answer(node_answer::documents(&call.body)));
                    self.answers.last().cloned().unwrap_or_default()
                });
                self.driver.answer_from(call.id, call.node, answer);
            }
            self.driver.let_clients_go();
        }
        assert_eq!(self.driver.unanswered(), self.waiting);
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The number of a node.
type Node = Option<usize>;

const FIRST: Node = Some(0);

/// Returns the node that has the primary of a document, if documents go to `indices` indices round robin.
fn owner(driver: &Driver, number: usize, indices: usize) -> Node {
    let table = driver.table();
    let place = |upstream: UpstreamId| table.upstreams().iter().position(|found| *found == upstream);
    match table.route(&index(number % indices), Some(hash(&id(number))), None) {
        Ok(Route::Primary { upstream, .. }) => place(upstream),
        _ => None,
    }
}
