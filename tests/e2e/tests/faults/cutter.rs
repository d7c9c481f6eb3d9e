use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use bulk_reshuffle_stack::port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A relay between Envoy and a node that resets connections, alternately before and within an answer of the node.
#[derive(Debug)]
pub struct Cutter {
    pub address: SocketAddr,
    script: Arc<Script>,
    serving: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Script {
    /// One of this many pieces of answers is cut; 0 disables cuts.
    one_of: AtomicUsize,
    pieces: AtomicUsize,
    cuts: AtomicUsize,
}

impl Cutter {
    /// Starts a relay in front of this node; it cuts nothing yet.
    pub async fn start(node: SocketAddr) -> Result<Self> {
        let address = port::loopback(port::free()?);
        let listener = TcpListener::bind(address).await?;
        let script = Arc::new(Script::default());
        let serving = tokio::spawn(accept(listener, node, Arc::clone(&script)));
        Ok(Self { address, script, serving })
    }

    /// Cuts one of this many pieces of answers from now on; 0 disables cuts.
    pub fn cut(&self, one_of: usize) {
        self.script.one_of.store(one_of, Ordering::Relaxed);
    }

    /// Returns how many connections were reset.
    pub fn cuts(&self) -> usize {
        self.script.cuts.load(Ordering::Relaxed)
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn accept(listener: TcpListener, node: SocketAddr, script: Arc<Script>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(carry(stream, node, Arc::clone(&script)));
        while connections.try_join_next().is_some() {}
    }
}

/// Relays a connection until either side closes it, which is an error.
async fn carry(mut envoy: TcpStream, node: SocketAddr, script: Arc<Script>) -> Result<()> {
    let mut node = TcpStream::connect(node).await?;
    for stream in [&envoy, &node] {
        stream.set_nodelay(true)?;
    }
    let (mut from_envoy, mut from_node) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = envoy.read(&mut from_envoy) => {
                let piece = from_envoy.get(..read?).filter(|piece| !piece.is_empty()).context("Envoy hung up")?;
                node.write_all(piece).await?;
            }
            read = node.read(&mut from_node) => {
                let piece = from_node.get(..read?).filter(|piece| !piece.is_empty()).context("the node hung up")?;
                if let Some(cut) = script.cuts_now() {
                    envoy.write_all(&piece[..piece.len() / 2 * (cut % 2)]).await?;
                    // A close without linger resets the connection.
                    return Ok(envoy.set_zero_linger()?);
                }
                envoy.write_all(piece).await?;
            }
        }
    }
}

impl Script {
    /// Returns the number of the cut if this piece is to be cut.
    fn cuts_now(&self) -> Option<usize> {
        let one_of = self.one_of.load(Ordering::Relaxed);
        let is_now = one_of > 0 && self.pieces.fetch_add(1, Ordering::Relaxed) % one_of == one_of - 1;
        is_now.then(|| self.cuts.fetch_add(1, Ordering::Relaxed))
    }
}
