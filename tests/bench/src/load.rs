//! Clients that send for a while.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use crate::client::{Answer, Client};
use crate::requests::Requests;

/// How long the last answers may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Latencies are kept in microseconds, up to two minutes, with three digits.
const LONGEST: u64 = 120_000_000;
const DIGITS: u8 = 3;

/// When a load ends: what comes first.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// No request begins after this time.
    pub duration: Duration,
    /// No more documents than these.
    pub documents: u64,
}

/// What came of a load.
#[derive(Debug)]
pub struct Outcome {
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Requests of which every operation was carried out.
    pub succeeded: u64,
    /// All others.
    pub failed: u64,
    /// The beginning of the first other response.
    pub problem: Option<String>,
    /// Microseconds from a request's first byte to its answer's last.
    pub latencies: Histogram<u64>,
}

/// Sends requests from the first on, each client one at a time, until a limit or the last request is reached, and
/// waits for all answers. Gives the clients back, so that their connections end when the caller wants.
pub async fn send(requests: &Rc<Requests>, clients: Vec<Client>, limits: Limits) -> Result<(Outcome, Vec<Client>)> {
    let started = Instant::now();
    let shared = Rc::new(Shared {
        requests: requests.clone(),
        count: usize::try_from(limits.documents / requests.documents as u64)?.max(1),
        deadline: started + limits.duration,
        state: RefCell::new(State { next: 0, outcome: Outcome::empty()? }),
    });
    let mut sending = JoinSet::new();
    for client in clients {
        sending.spawn_local(send_until_done(client, shared.clone()));
    }
    let mut clients = Vec::with_capacity(sending.len());
    let all = async {
        while let Some(ended) = sending.join_next().await {
            clients.push(ended??);
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(limits.duration + PATIENCE, all).await {
        Ok(ended) => ended?,
        Err(_) => bail!("no answer within {} s", PATIENCE.as_secs()),
    }
    let elapsed = started.elapsed();
    let shared = Rc::into_inner(shared).context("a client is still sending")?;
    Ok((Outcome { elapsed, ..shared.state.into_inner().outcome }, clients))
}

struct Shared {
    requests: Rc<Requests>,
    /// How many requests there are to send.
    count: usize,
    deadline: Instant,
    state: RefCell<State>,
}

struct State {
    next: usize,
    outcome: Outcome,
}

async fn send_until_done(mut client: Client, shared: Rc<Shared>) -> Result<Client> {
    loop {
        let sent = Instant::now();
        if sent >= shared.deadline {
            return Ok(client);
        }
        let Some(request) = shared.next() else { return Ok(client) };
        let answer = client.send(request).await?;
        shared.state.borrow_mut().outcome.count(answer, sent.elapsed());
    }
}

impl Shared {
    fn next(&self) -> Option<&[u8]> {
        let mut state = self.state.borrow_mut();
        let number = state.next;
        state.next += 1;
        if number < self.count { self.requests.get(number) } else { None }
    }
}

impl Outcome {
    fn empty() -> Result<Self> {
        let latencies = Histogram::new_with_bounds(1, LONGEST, DIGITS)?;
        Ok(Self { elapsed: Duration::ZERO, succeeded: 0, failed: 0, problem: None, latencies })
    }

    fn count(&mut self, answer: Answer, latency: Duration) {
        match answer {
            Answer::Success => self.succeeded += 1,
            Answer::Failure(text) => {
                self.failed += 1;
                self.problem.get_or_insert(text);
            }
        }
        self.latencies.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(LONGEST));
    }
}
