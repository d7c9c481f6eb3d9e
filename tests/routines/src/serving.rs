use std::collections::{BTreeSet, VecDeque};
use std::mem;

use bulk_reshuffle::engine::Input;
use bulk_reshuffle::routing::{Route, UpstreamId, hash};

use crate::documents::{BYTES, body, chunks, id, index};
use crate::site::Site;
use crate::{CHUNK, Case, Routine, node_answer};

/// All that becomes of requests, from their headers to the moment when the clients go with their answers, by the engine
/// as the shell drives it.
///
/// All of them are here before a node answers: to each node the first leaves at once, and the others wait.
pub struct Serving {
    site: Site,
    bodies: Vec<Vec<u8>>,
    own_callers: bool,
    inputs: Vec<Vec<Input>>,
    /// What the nodes answer, call by call: the same in every run.
    answers: Vec<Vec<u8>>,
    ready: VecDeque<Vec<u8>>,
    waiting: usize,
    shares: usize,
    bytes: usize,
}

impl Serving {
    /// Of a case's requests.
    pub fn new(case: &Case) -> Self {
        let mut site = Site::new(case.cluster);
        // Those that wait all the time are for one node, the others then for the other nodes.
        let (held, served): (Vec<usize>, Vec<usize>) =
            (0..4 * case.waiting + 2 * case.operations()).partition(|number| owner(&site, *number, 1) == FIRST);
        for number in held.iter().take(case.waiting) {
            let inputs = site.request(&[], vec![body(&[*number], 1, BYTES)]);
            inputs.into_iter().for_each(|input| site.in_stream(input));
            site.wake();
        }
        site.calls.clear();
        assert_eq!(site.unanswered(), case.waiting, "too few documents for one node");
        let all: Vec<usize> = (0..case.operations()).collect();
        let numbers = if case.waiting > 0 { &served } else { &all };
        let indices = if case.is_spread { case.cluster.indices } else { 1 };
        let requests = || numbers.chunks(case.documents).take(case.requests);
        let bodies: Vec<Vec<u8>> = requests().map(|numbers| body(numbers, indices, BYTES)).collect();
        let bytes = bodies.iter().map(Vec::len).sum();
        let owners = |numbers: &[usize]| numbers.iter().map(|number| owner(&site, *number, indices)).collect();
        let shares = requests().map(|numbers| BTreeSet::len(&owners(numbers))).sum();
        Self {
            site,
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

    /// How many parts the nodes get of all requests.
    pub fn shares(&self) -> usize {
        self.shares
    }

    /// How many batches leave, once it has run.
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
            self.inputs.push(self.site.request(&[("x-opaque-id", &value)], chunks(body, CHUNK)));
        }
    }

    fn run(&mut self) {
        for inputs in self.inputs.drain(..) {
            inputs.into_iter().for_each(|input| self.site.in_stream(input));
            self.site.wake();
        }
        while !self.site.calls.is_empty() {
            for call in mem::take(&mut self.site.calls) {
                let answer = self.ready.pop_front().unwrap_or_else(|| {
                    self.answers.push(node_answer::answer(node_answer::documents(&call.body)));
                    self.answers.last().cloned().unwrap_or_default()
                });
                self.site.answer(call.id, answer);
            }
            self.site.let_clients_go();
        }
        assert_eq!(self.site.unanswered(), self.waiting);
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The number of a node.
type Node = Option<usize>;

const FIRST: Node = Some(0);

/// The node that has the primary of a document, if these go to so many indices in turn.
fn owner(site: &Site, number: usize, indices: usize) -> Node {
    let table = site.table();
    let place = |upstream: UpstreamId| table.upstreams().iter().position(|found| *found == upstream);
    match table.route(&index(number % indices), Some(hash(&id(number))), None) {
        Ok(Route::Primary { upstream, .. }) => place(upstream),
        _ => None,
    }
}
