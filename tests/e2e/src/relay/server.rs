use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A TCP server. Dropping it closes the port and all connections.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start<F>(
        address: SocketAddr,
        serve: impl FnMut(TcpStream) -> F + Send + 'static,
    ) -> Result<Self>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        Ok(Self { address, serving: tokio::spawn(accept(listener, serve)) })
    }

    /// Closes the port and all connections.
    pub(crate) async fn stop(&mut self) {
        self.serving.abort();
        // The only possible error is the abort above.
        (&mut self.serving).await.ok();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Accepts connections. They end with this future: dropping the set aborts its tasks.
async fn accept<F>(listener: TcpListener, mut serve: impl FnMut(TcpStream) -> F)
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        // As clusters do. Otherwise the end of a long answer waits for the other side's acknowledgement.
        stream.set_nodelay(true).ok();
        connections.spawn(serve(stream));
        while connections.try_join_next().is_some() {}
    }
}
