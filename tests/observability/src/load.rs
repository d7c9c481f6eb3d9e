use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use tokio::task::JoinSet;

/// Clients that send one request after the other.
#[derive(Debug, Default)]
pub(crate) struct Load {
    is_over: Arc<AtomicBool>,
    clients: JoinSet<Result<()>>,
}

impl Load {
    /// One more of them, which is asked for its first request, its second one ….
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

    /// Ends all of them, once each is answered.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(client) = self.clients.join_next().await {
            client?.context("a client gave up")?;
        }
        Ok(())
    }
}
