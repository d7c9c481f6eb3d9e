//! Sends a workload and checks every answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bulk_reshuffle_stack::Client;

use crate::progress::Step;
use crate::workload::Workload;

#[derive(Debug, Default, Clone)]
pub struct Outcome {
    pub elapsed: Duration,
    pub operations: usize,
    /// Requests whose answers were right in every item.
    pub right: usize,
    pub requests: usize,
    /// The growth of the index in documents, according to the answers.
    pub growth: i64,
    pub problem: Option<String>,
}

impl Outcome {
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }
}

/// Sends all requests to `<base>/<index>/_bulk` with the workload's number of concurrent clients. The requests go to
/// the bases round robin.
pub async fn send(workload: &Arc<Workload>, bases: &[String], index: &str, what: &str) -> Result<Outcome> {
    let step = Arc::new(Step::start_counted(&format!("{what} {}", workload.name), workload.requests.len()));
    let urls: Arc<[String]> = bases.iter().map(|base| format!("{base}/{index}/_bulk")).collect();
    let next = Arc::new(AtomicUsize::new(0));
    let client = Client::new();
    let started = Instant::now();
    let clients: Vec<_> = (0..workload.clients)
        .map(|_| {
            let (workload, urls, next) = (workload.clone(), urls.clone(), next.clone());
            let (client, step, index) = (client.clone(), step.clone(), index.to_owned());
            tokio::spawn(async move {
                let mut outcome = Outcome::default();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(request) = workload.requests.get(number) else { return Ok(outcome) };
                    let url = urls.get(number % urls.len()).context("the load has no addresses")?;
                    let answer = client.post_ndjson(url, request.body.clone()).await;
                    outcome.count(request.operations(), answer.and_then(|answer| request.check(&answer, &index)));
                    step.advance();
                }
            })
        })
        .collect();
    let mut total = Outcome::default();
    for client in clients {
        let outcome: Result<Outcome> = client.await?;
        total.add(outcome?);
    }
    total.elapsed = started.elapsed();
    if let Ok(step) = Arc::try_unwrap(step) {
        step.finish();
    }
    Ok(total)
}

impl Outcome {
    fn count(&mut self, operations: usize, checked: Result<i64>) {
        self.requests += 1;
        self.operations += operations;
        match checked {
            Ok(growth) => {
                self.right += 1;
                self.growth += growth;
            }
            Err(error) => self.problem = self.problem.take().or(Some(format!("{error:#}"))),
        }
    }

    pub fn add(&mut self, other: Self) {
        self.elapsed += other.elapsed;
        self.requests += other.requests;
        self.operations += other.operations;
        self.right += other.right;
        self.growth += other.growth;
        self.problem = self.problem.take().or(other.problem);
    }
}
