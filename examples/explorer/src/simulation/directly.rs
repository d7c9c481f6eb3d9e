use std::collections::BTreeMap;

use super::Settings;
use super::agenda::Agenda;
use super::arrivals::{Arrivals, Clients};
use super::node::Node;
use super::report::{Record, Run};

enum Event {
    Arrive(usize),
    Answer(usize),
}

/// The same requests without the filter: each goes to a node in turn, which sends to the others what is theirs.
pub fn run(arrivals: &Arrivals, settings: &Settings) -> Run {
    let mut nodes = Nodes::new(arrivals);
    let (mut agenda, mut record) = (Agenda::default(), Record::default());
    let mut clients = Clients::new(settings.clients);
    for (request, at) in arrivals.times().iter().enumerate() {
        agenda.add(*at, Event::Arrive(request));
    }
    let mut now = 0;
    while let Some((at, event)) = agenda.next() {
        now = at;
        let next = match event {
            Event::Arrive(request) => clients.arrive(request),
            Event::Answer(request) => {
                record.answered(arrivals, request, now);
                clients.answered()
            }
        };
        if let Some(request) = next {
            let done = nodes.take(&arrivals.shares(request), now, settings, &mut record);
            agenda.add(done, Event::Answer(request));
        }
    }
    record.into_run(&nodes.list, arrivals, now)
}

/// The cluster's nodes, of which each takes requests in turn.
#[derive(Debug)]
pub struct Nodes {
    /// By number.
    pub list: Vec<Node>,
    turn: usize,
}

impl Nodes {
    /// Without anything to do.
    pub fn new(arrivals: &Arrivals) -> Self {
        Self { list: vec![Node::default(); arrivals.nodes.len().max(1)], turn: 0 }
    }

    /// The node whose turn it is takes operations in, and each is carried out by its own; says when all are.
    pub fn take(
        &mut self,
        shares: &BTreeMap<Option<usize>, u64>,
        now: u64,
        settings: &Settings,
        record: &mut Record,
    ) -> u64 {
        self.turn = self.turn.wrapping_add(1);
        let taker = self.turn.checked_rem(self.list.len()).unwrap_or_default();
        let mut done = now;
        for (node, operations) in shares {
            let number = node.unwrap_or(taker);
            let Some(owner) = self.list.get_mut(number) else { continue };
            done = done.max(owner.carry_out(*operations, now, settings));
            let requests = 1;
            record.batch(*operations, requests);
            if number != taker {
                record.forwarded = record.forwarded.saturating_add(*operations);
            }
        }
        done
    }
}
