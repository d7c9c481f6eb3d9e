use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use bulk_reshuffle_stack::port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A relay between Envoy and a node that records the bytes that Envoy sends.
#[derive(Debug)]
pub struct Wiretap {
    /// The relay's address.
    pub address: SocketAddr,
    heard: Heard,
    serving: JoinHandle<()>,
}

/// The bytes sent on each connection.
type Heard = Arc<Mutex<Vec<Vec<u8>>>>;

impl Wiretap {
    /// Starts a relay at a free port.
    pub async fn start(node: SocketAddr) -> Result<Self> {
        Self::start_at(port::loopback(port::free()?), node).await
    }

    /// Starts a relay at this address.
    pub async fn start_at(address: SocketAddr, node: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let heard = Heard::default();
        let serving = tokio::spawn(accept(listener, node, Arc::clone(&heard)));
        Ok(Self { address, heard, serving })
    }

    /// Returns the bytes that Envoy has sent so far, for each connection.
    pub fn heard(&self) -> Vec<Vec<u8>> {
        lock(&self.heard).clone()
    }
}

impl Drop for Wiretap {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn accept(listener: TcpListener, node: SocketAddr, heard: Heard) {
    let mut connections = JoinSet::new();
    while let Ok((envoy, _)) = listener.accept().await {
        connections.spawn(carry(envoy, node, Arc::clone(&heard)));
        while connections.try_join_next().is_some() {}
    }
}

/// Relays a connection until either side closes it, which is an error.
async fn carry(mut envoy: TcpStream, node: SocketAddr, heard: Heard) -> std::io::Result<()> {
    let mut node = TcpStream::connect(node).await?;
    let number = {
        let mut heard = lock(&heard);
        heard.push(Vec::new());
        heard.len() - 1
    };
    let (mut from_envoy, mut from_node) = (Vec::with_capacity(1 << 16), Vec::with_capacity(1 << 16));
    loop {
        tokio::select! {
            read = envoy.read_buf(&mut from_envoy) => {
                if read? == 0 {
                    return Ok(());
                }
                if let Some(connection) = lock(&heard).get_mut(number) {
                    connection.extend_from_slice(&from_envoy);
                }
                node.write_all(&from_envoy).await?;
                from_envoy.clear();
            }
            read = node.read_buf(&mut from_node) => {
                if read? == 0 {
                    return Ok(());
                }
                envoy.write_all(&from_node).await?;
                from_node.clear();
            }
        }
    }
}

fn lock(heard: &Heard) -> MutexGuard<'_, Vec<Vec<u8>>> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}
