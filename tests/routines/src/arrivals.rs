use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use bulk_reshuffle::Time;
use bulk_reshuffle::engine::{Call, CallId, RequestId};

use crate::documents::{BYTES, body, scattered};
use crate::site::{CONFIG, Site};
use crate::{Cluster, node_answer};

/// Requests of one document from clients of which none waits for another, to nodes that take the same time for each
/// batch. In virtual time, by the engine of one worker: the others have as much to do and know nothing of it.
#[derive(Debug, Clone, Copy)]
pub struct Arrivals {
    /// Requests a second, at all workers together.
    pub rate: f64,
    /// Envoy's workers.
    pub workers: usize,
    /// The cluster's nodes.
    pub nodes: usize,
    /// From a batch to its answer.
    pub batch_time: Duration,
    /// Without early release: how long a request waits for others.
    pub interval: Option<Duration>,
}

/// What has come of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batches {
    /// Requests in a batch, on average.
    pub requests: f64,
    /// How long a request takes from its arrival to its answer, on average.
    pub latency: Duration,
}

/// How many requests have to be answered until it is known what comes of them.
const REQUESTS: usize = 20_000;

/// The first of them do not count.
const WARM_UP: usize = 2_000;

impl Arrivals {
    /// Requests in a batch, by arithmetic: what arrives for one node at one worker while the batch before is on its way,
    /// or in the interval after the first.
    pub fn expected(&self) -> f64 {
        let arriving = |time: Duration| self.rate * time.as_secs_f64() / (self.workers * self.nodes) as f64;
        match self.interval {
            // If nothing arrives meanwhile, the next request leaves alone.
            None => arriving(self.batch_time) + (-arriving(self.batch_time)).exp(),
            Some(interval) => 1.0 + arriving(interval),
        }
    }

    /// What the engine makes of them.
    pub fn simulated(&self) -> Batches {
        let cluster = Cluster { nodes: self.nodes, indices: 1, shards: self.nodes };
        let config = match self.interval {
            None => CONFIG.to_owned(),
            Some(interval) => {
                let hold = format!(r#""hold": {{"early_release": false, "interval": "{}ms"}}"#, interval.as_millis());
                CONFIG.replacen('{', &format!("{{{hold}, "), 1)
            }
        };
        Simulation::new(*self, cluster, Site::configured(cluster, &config)).run()
    }
}

struct Simulation {
    arrivals: Arrivals,
    cluster: Cluster,
    site: Site,
    answers: BinaryHeap<Reverse<(Time, CallId, Vec<u8>)>>,
    chance: u64,
    batches: usize,
    requests: usize,
    answered: u32,
    latency: Duration,
    /// When each request has arrived, by its number.
    arrived: Vec<Time>,
}

impl Simulation {
    fn new(arrivals: Arrivals, cluster: Cluster, site: Site) -> Self {
        // One was here already, to let the engine look at the cluster.
        let arrived = vec![site.now];
        Self {
            arrivals,
            cluster,
            site,
            answers: BinaryHeap::new(),
            chance: 1,
            batches: 0,
            requests: 0,
            answered: 0,
            latency: Duration::ZERO,
            arrived,
        }
    }

    fn run(mut self) -> Batches {
        let mut next = self.site.now + self.gap();
        while self.arrived.len() < REQUESTS {
            let answer = self.answers.peek().map(|Reverse((time, ..))| *time);
            let timer = self.site.timer;
            self.site.now = [Some(next), answer, timer].into_iter().flatten().min().unwrap_or(next);
            if answer == Some(self.site.now) {
                let Some(Reverse((_, call, body))) = self.answers.pop() else { continue };
                self.site.answer(call, body);
            } else if timer == Some(self.site.now) {
                self.site.tick();
            } else {
                self.arrive();
                next += self.gap();
            }
            self.send();
            self.reply();
        }
        Batches {
            requests: self.requests as f64 / self.batches.max(1) as f64,
            latency: self.latency / self.answered.max(1),
        }
    }

    fn arrive(&mut self) {
        let inputs = self.site.request(&[], vec![body(&[self.arrived.len()], 1, BYTES)]);
        self.arrived.push(self.site.now);
        inputs.into_iter().for_each(|input| self.site.in_stream(input));
        self.site.wake();
    }

    /// The nodes answer after a while, and questions about the cluster at once.
    fn send(&mut self) {
        while let Some(Call { id, headers, body, .. }) = self.site.calls.pop() {
            if body.is_empty() {
                self.site.answer(id, self.cluster.answer(&headers[1].1));
                continue;
            }
            if self.arrived.len() > WARM_UP {
                self.batches += 1;
                self.requests += node_answer::documents(&body).count();
            }
            let answer = node_answer::answer(node_answer::documents(&body));
            self.answers.push(Reverse((self.site.now + self.arrivals.batch_time, id, answer)));
        }
    }

    fn reply(&mut self) {
        for (RequestId(number), _) in self.site.replies.iter().filter(|_| self.arrived.len() > WARM_UP) {
            self.latency += self.site.now - self.arrived[*number as usize];
            self.answered += 1;
        }
        self.site.let_clients_go();
    }

    /// The time between two arrivals at this worker: none knows of another (a Poisson process).
    fn gap(&mut self) -> Time {
        self.chance = scattered(self.chance);
        let chance = (self.chance >> 11) as f64 / (1_u64 << 53) as f64;
        let rate = self.arrivals.rate / self.arrivals.workers as f64;
        Duration::from_secs_f64(-(1.0 - chance).ln() / rate)
    }
}
