use std::future::Future;

use anyhow::Result;
use bulk_reshuffle_stack::Response;
use tokio::task::JoinHandle;

/// A pending answer. Dropping it closes the client's connection.
#[derive(Debug)]
pub struct Answer(JoinHandle<Result<Response>>);

impl Answer {
    pub(crate) fn spawn(exchange: impl Future<Output = Result<Response>> + Send + 'static) -> Self {
        Self(tokio::spawn(exchange))
    }

    /// Waits for the answer.
    pub async fn get(mut self) -> Result<Response> {
        (&mut self.0).await?
    }

    /// Returns whether the answer has arrived.
    pub fn is_there(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.abort();
    }
}
