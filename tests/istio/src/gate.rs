use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::io::{self, AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch::{self, Receiver};
use tokio::task::{JoinHandle, JoinSet};

/// A relay to a node. While it is closed, connections stay open, but nothing passes: for its clients the node has
/// stopped, for all others it works. Dropping it closes the port and all connections.
#[derive(Debug)]
pub struct Gate {
    is_open: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Gate {
    /// Starts an open gate at an address.
    pub async fn start_at(address: SocketAddr, node: SocketAddr) -> Result<Self> {
        let (is_open, watching) = watch::channel(true);
        let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        Ok(Self { is_open, serving: tokio::spawn(accept(listener, node, watching)) })
    }

    /// Holds everything that arrives from now on.
    pub fn close(&self) {
        self.is_open.send_replace(false);
    }

    /// Passes everything on again.
    pub fn open(&self) {
        self.is_open.send_replace(true);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Accepts connections. They end with this future: dropping the set aborts its tasks.
async fn accept(listener: TcpListener, node: SocketAddr, is_open: Receiver<bool>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(carry(client, node, is_open.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(client: TcpStream, node: SocketAddr, is_open: Receiver<bool>) -> io::Result<()> {
    let server = TcpStream::connect(node).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::try_join!(copy(from_client, to_server, is_open.clone()), copy(from_server, to_client, is_open))?;
    Ok(())
}

/// Copies the bytes of one direction until their sender has closed it.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut is_open: Receiver<bool>) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(1 << 16);
    loop {
        let count = from.read_buf(&mut bytes).await?;
        // The only error is that the gate was dropped.
        is_open.wait_for(|is_open| *is_open).await.map_err(io::Error::other)?;
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&bytes).await?;
        bytes.clear();
    }
}
