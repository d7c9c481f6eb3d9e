use std::collections::BTreeMap;

use super::Settings;
use super::arrivals::{Arrivals, Clients};
use super::event_queue::EventQueue;
use super::node::Node;
use super::report::{Record, Run};

enum Event {
    Arrive(usize),
    Answer(usize),
}

/// Simulates the same requests without the filter. The requests go to the nodes round robin, and each node forwards the
/// other nodes' operations.
pub fn run(arrivals: &Arrivals, settings: &Settings) -> Run {
    let mut nodes = Nodes::new(arrivals);
    let (mut events, mut record) = (EventQueue::default(), Record::default());
    let mut clients = Clients::new(settings.clients);
    for (request, at) in arrivals.times().iter().enumerate() {
        events.add(*at, Event::Arrive(request));
    }
    let mut now = 0;
    while let Some((at, event)) = events.next() {
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
            events.add(done, Event::Answer(request));
        }
    }
    record.into_run(&nodes.list, arrivals, now)
}

/// The cluster's nodes, which take requests round robin.
#[derive(Debug)]
pub struct Nodes {
    /// The nodes by number.
    pub list: Vec<Node>,
    next: usize,
}

impl Nodes {
    /// Creates idle nodes.
    pub fn new(arrivals: &Arrivals) -> Self {
        Self { list: vec![Node::default(); arrivals.nodes.len().max(1)], next: 0 }
    }

    /// Sends operations to the next node. Each operation is executed by its owner. Returns the time at which all are
    /// done.
    pub fn take(
        &mut self,
        shares: &BTreeMap<Option<usize>, u64>,
        now: u64,
        settings: &Settings,
        record: &mut Record,
    ) -> u64 {
        self.next = self.next.wrapping_add(1);
        let taker = self.next.checked_rem(self.list.len()).unwrap_or_default();
        let mut done = now;
        for (node, operations) in shares {
            let number = node.unwrap_or(taker);
            let Some(owner) = self.list.get_mut(number) else { continue };
            done = done.max(owner.execute(*operations, now, settings));
            let requests = 1;
            record.batch(*operations, requests);
            if number != taker {
                record.forwarded = record.forwarded.saturating_add(*operations);
            }
        }
        done
    }
}
