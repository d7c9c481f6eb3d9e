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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::bail;

    use super::*;

    #[tokio::test]
    async fn clients_pass_their_states_on_until_the_end() {
        let mut clients = Clients::default();
        for client in 0..3 {
            clients.add((client, Vec::new()), |(client, mut numbers), number| async move {
                numbers.push(number);
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok((client, numbers))
            });
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        clients.check().unwrap();
        let mut states = clients.end().await.unwrap();
        states.sort();
        assert_eq!(states.iter().map(|(client, _)| *client).collect::<Vec<_>>(), [0, 1, 2]);
        for (_, numbers) in states {
            assert!(!numbers.is_empty());
            assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn a_failed_client_is_an_error() {
        let mut clients = Clients::default();
        clients.add((), |(), number| async move { if number < 2 { Ok(()) } else { bail!("request {number} failed") } });
        let failed = async {
            loop {
                if let Err(error) = clients.check() {
                    return format!("{error:#}");
                }
                tokio::task::yield_now().await;
            }
        };
        let failed = tokio::time::timeout(Duration::from_secs(10), failed).await;
        assert_eq!(failed.unwrap(), "a client failed: request 2 failed");
    }
}
