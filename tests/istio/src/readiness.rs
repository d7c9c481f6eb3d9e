use std::net::SocketAddr;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::{Client, Process, wait};
use tokio::net::TcpStream;

use crate::LIMIT;

/// Waits until a process answers requests to a URL.
pub(crate) async fn wait_answer(process: &Process, what: &str, url: &str) -> Result<()> {
    let client = Client::new();
    wait::until(LIMIT, what, async || {
        process.ensure_running()?;
        Ok(client.get(url).await.and_then(|response| response.ok()).ok().map(|_| ()))
    })
    .await
    .with_context(|| process.log_extract())
}

/// Waits until a process accepts connections at an address.
pub(crate) async fn wait_connection(process: &Process, what: &str, address: SocketAddr) -> Result<()> {
    wait::until(LIMIT, what, async || {
        process.ensure_running()?;
        Ok(TcpStream::connect(address).await.ok().map(|_| ()))
    })
    .await
    .with_context(|| process.log_extract())
}
