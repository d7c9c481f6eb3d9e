use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::load::{Clients, Ledger, documents};
use bulk_reshuffle_stack::Client;

use crate::noticed::Noticed;
use crate::way::Way;
use crate::work::Work;
use crate::writer::Writer;

/// The writers of each way and each kind of work.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub writers: usize,
    /// How often each of them sends a request.
    pub period: Duration,
}

/// Clients that write to several indices through several ways.
pub struct Writers {
    groups: Vec<Group>,
    begun: Instant,
}

/// The writers of an index.
struct Group {
    way: Way,
    work: Work,
    index: String,
    clients: Clients<Writer>,
}

/// What the writers of a way have noticed.
#[derive(Debug)]
pub struct Outcome {
    pub way: Way,
    pub work: Work,
    pub noticed: Noticed,
}

impl Writers {
    /// Starts writers for each index, given with the way to it. All use the same path, so that the filter merges their
    /// operations.
    pub fn start(indices: Vec<(Way, Work, String)>, pace: Pace) -> Self {
        let group = |(way, work, index): (Way, Work, String)| {
            let urls: Vec<String> = way.servers.iter().map(|server| format!("{server}/_bulk")).collect();
            let mut clients = Clients::default();
            for number in 0..pace.writers {
                let writer = Writer::new(urls.clone(), work, index.clone(), number, pace.period);
                clients.add(writer, |writer: Writer, _| writer.write());
            }
            Group { way, work, index, clients }
        };
        Self { groups: indices.into_iter().map(group).collect(), begun: Instant::now() }
    }

    /// Counts the requests that are unanswered now, and later ones.
    pub fn begin(&mut self) {
        self.begun = Instant::now();
    }

    /// Returns an error if a writer has failed.
    pub fn check(&mut self) -> Result<()> {
        self.groups.iter_mut().try_for_each(|group| group.clients.check())
    }

    /// Stops all writers after their current requests. Compares what they were told with the documents at this node.
    pub async fn end(self, node: &str) -> Result<Vec<Outcome>> {
        let (client, mut outcomes) = (Client::new(), Vec::new());
        for Group { way, work, index, clients } in self.groups {
            let (mut requests, mut ledger) = (Vec::new(), Ledger::default());
            for writer in clients.end().await? {
                let (sent, told) = writer.into_parts();
                requests.extend(sent);
                ledger.add(told);
            }
            let found = documents(&client, node, &index).await?;
            ledger.verify(&found).with_context(|| format!("documents written by {}", way.name))?;
            let noticed = Noticed::of(requests.into_iter().filter(|request| request.ended > self.begun));
            outcomes.push(Outcome { way, work, noticed });
        }
        Ok(outcomes)
    }
}

impl Outcome {
    /// Prints a line for an event.
    pub fn print(&self, event: &str) {
        println!("{event}, {}, {}: {}", self.way.name, self.work.action(), self.noticed);
    }
}
