use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use bulk_reshuffle::Time;
use bulk_reshuffle::engine::{Call, CallId, RequestId};

use super::documents::{BYTES, body, scattered};
use super::driver::{CONFIG, Driver};
use super::{Cluster, node_answer};

/// Requests of one document from independent clients, to nodes that take the same time for each batch. They are
/// simulated in virtual time with the engine of one worker. The other workers have the same load and share nothing with
/// it.
#[derive(Debug, Clone, Copy)]
pub struct Arrivals {
    /// The requests per second, over all workers.
    pub rate: f64,
    /// The number of Envoy's workers.
    pub workers: usize,
    /// The number of the cluster's nodes.
    pub nodes: usize,
    /// The time from a batch to its answer.
    pub batch_time: Duration,
    /// How long a request is held if early release is off.
    pub interval: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batches {
    /// The average number of requests in a batch.
    pub requests: f64,
    /// The average time from a request's arrival to its answer.
    pub latency: Duration,
}

/// The number of requests to simulate.
const REQUESTS: usize = 20_000;

/// The number of first requests that do not count.
const WARM_UP: usize = 2_000;

impl Arrivals {
    /// Calculates the number of requests in a batch: those that arrive for one node at one worker while the previous
    /// batch is in flight, or in the interval after the first.
    pub fn expected(&self) -> f64 {
        let arriving = |time: Duration| self.rate * time.as_secs_f64() / (self.workers * self.nodes) as f64;
        match self.interval {
            // If nothing arrives in this time, the next request leaves alone.
            None => arriving(self.batch_time) + (-arriving(self.batch_time)).exp(),
            Some(interval) => 1.0 + arriving(interval),
        }
    }

    pub fn simulated(&self) -> Batches {
        let cluster = Cluster { nodes: self.nodes, indices: 1, shards: self.nodes };
        let config = match self.interval {
            None => CONFIG.to_owned(),
            Some(interval) => {
                let hold = format!(r#""hold": {{"early_release": false, "interval": "{}ms"}}"#, interval.as_millis());
                CONFIG.replacen('{', &format!("{{{hold}, "), 1)
            }
        };
        Simulation::new(*self, cluster, Driver::configured(cluster, &config)).run()
    }
}

struct Simulation {
    arrivals: Arrivals,
    cluster: Cluster,
    driver: Driver,
    answers: BinaryHeap<Reverse<(Time, CallId, Vec<u8>)>>,
    chance: u64,
    batches: usize,
    requests: usize,
    answered: u32,
    latency: Duration,
    /// The arrival time of each request, by its number.
    arrived: Vec<Time>,
}

impl Simulation {
    fn new(arrivals: Arrivals, cluster: Cluster, driver: Driver) -> Self {
        // One request has already arrived, to make the engine poll the cluster.
        let arrived = vec![driver.now];
        Self {
            arrivals,
            cluster,
            driver,
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
        let mut next = self.driver.now + self.gap();
        while self.arrived.len() < REQUESTS {
            let answer = self.answers.peek().map(|Reverse((time, ..))| *time);
            let timer = self.driver.timer;
            self.driver.now = [Some(next), answer, timer].into_iter().flatten().min().unwrap_or(next);
            if answer == Some(self.driver.now) {
                let Some(Reverse((_, call, body))) = self.answers.pop() else { continue };
                self.driver.answer(call, body);
            } else if timer == Some(self.driver.now) {
                self.driver.tick();
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
        let inputs = self.driver.request(&[], vec![body(&[self.arrived.len()], 1, BYTES)]);
        self.arrived.push(self.driver.now);
        inputs.into_iter().for_each(|input| self.driver.in_stream(input));
        self.driver.wake();
    }

    /// Answers batches after a while, and queries about the cluster at once.
    fn send(&mut self) {
        while let Some(call) = self.driver.calls.pop() {
            if call.body.is_empty() {
                self.driver.answer(call.id, self.cluster.answer(&call));
                continue;
            }
            let Call { id, body, .. } = call;
            if self.arrived.len() > WARM_UP {
                self.batches += 1;
                self.requests += node_answer::documents(&body).count();
            }
            let answer = node_answer::answer(node_answer::documents(&body));
            self.answers.push(Reverse((self.driver.now + self.arrivals.batch_time, id, answer)));
        }
    }

    fn reply(&mut self) {
        for (RequestId(number), _) in self.driver.replies.iter().filter(|_| self.arrived.len() > WARM_UP) {
            self.latency += self.driver.now - self.arrived[*number as usize];
            self.answered += 1;
        }
        self.driver.let_clients_go();
    }

    /// Returns the time until the next arrival at this worker. Arrivals are independent (a Poisson process).
    fn gap(&mut self) -> Time {
        self.chance = scattered(self.chance);
        let chance = (self.chance >> 11) as f64 / (1_u64 << 53) as f64;
        let rate = self.arrivals.rate / self.arrivals.workers as f64;
        Duration::from_secs_f64(-(1.0 - chance).ln() / rate)
    }
}
