use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::Client;
use tokio::task::JoinSet;

/// Concurrent clients, each of which sends one request after the other.
#[derive(Debug)]
pub struct Clients<T> {
    is_over: Arc<AtomicBool>,
    tasks: JoinSet<Result<T>>,
}

impl<T> Default for Clients<T> {
    fn default() -> Self {
        Self { is_over: Arc::default(), tasks: JoinSet::default() }
    }
}

impl<T: Send + 'static> Clients<T> {
    /// Adds a client with this state. `request` sends its request with a given number, from 0 on, and returns the next
    /// state.
    pub fn add<F>(&mut self, mut state: T, request: impl Fn(T, usize) -> F + Send + 'static)
    where
        F: Future<Output = Result<T>> + Send,
    {
        let is_over = Arc::clone(&self.is_over);
        self.tasks.spawn(async move {
            for number in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                state = request(state, number).await?;
            }
            Ok(state)
        });
    }

    /// Returns an error if a client has failed.
    pub fn check(&mut self) -> Result<()> {
        match self.tasks.try_join_next() {
            Some(client) => client?.context("a client failed").map(drop),
            None => Ok(()),
        }
    }

    /// Stops all clients after their current requests, and returns their states.
    pub async fn end(mut self) -> Result<Vec<T>> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut states = Vec::new();
        while let Some(client) = self.tasks.join_next().await {
            states.push(client?.context("a client failed")?);
        }
        Ok(states)
    }
}

/// Writes small documents with these numbers in one request.
pub async fn write(client: &Client, url: &str, numbers: Range<usize>) -> Result<()> {
    let line = |number| format!("{{\"index\":{{\"_id\":\"{number}\"}}}}\n{{\"message\":\"line {number}\"}}\n");
    let answer = client.post_ndjson(url, numbers.map(line).collect::<String>()).await?;
    ensure!(answer.status == 200, "{}", answer.text());
    Ok(())
}
