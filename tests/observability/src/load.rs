use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use tokio::task::JoinSet;

/// Concurrent clients, each of which sends one request after the other.
#[derive(Debug, Default)]
pub(crate) struct Load {
    is_over: Arc<AtomicBool>,
    clients: JoinSet<Result<()>>,
}

impl Load {
    /// Adds a client. `request` sends the client's request with a given number, from 0 on.
    pub(crate) fn client<F>(&mut self, request: impl Fn(usize) -> F + Send + 'static)
    where
        F: Future<Output = Result<()>> + Send,
    {
        let is_over = Arc::clone(&self.is_over);
        self.clients.spawn(async move {
            for number in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                request(number).await?;
            }
            Ok(())
        });
    }

    /// Stops all clients after their current requests.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(client) = self.clients.join_next().await {
            client?.context("a client failed")?;
        }
        Ok(())
    }
}
