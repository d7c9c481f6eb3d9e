use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bulk_reshuffle_stack::port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Stands between Envoy and a node, and keeps what Envoy sends.
pub struct Wiretap {
    pub address: SocketAddr,
    heard: Heard,
    serving: JoinHandle<()>,
}

/// What was sent on each connection.
type Heard = Arc<Mutex<Vec<Vec<u8>>>>;

impl Wiretap {
    pub async fn start(node: SocketAddr) -> Self {
        Self::start_at(port::loopback(port::free().unwrap()), node).await
    }

    /// At this address.
    pub async fn start_at(address: SocketAddr, node: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let heard = Heard::default();
        let serving = tokio::spawn(accept(listener, node, Arc::clone(&heard)));
        Self { address, heard, serving }
    }

    /// What Envoy has sent so far, on each connection.
    pub fn heard(&self) -> Vec<Vec<u8>> {
        self.heard.lock().unwrap().clone()
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

/// An error is a connection that ended, on either side.
async fn carry(mut envoy: TcpStream, node: SocketAddr, heard: Heard) -> std::io::Result<()> {
    let mut node = TcpStream::connect(node).await?;
    let number = {
        let mut heard = heard.lock().unwrap();
        heard.push(Vec::new());
        heard.len() - 1
    };
    let (mut from_envoy, mut from_node) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = envoy.read(&mut from_envoy) => match read? {
                0 => return Ok(()),
                length => {
                    heard.lock().unwrap()[number].extend_from_slice(&from_envoy[..length]);
                    node.write_all(&from_envoy[..length]).await?;
                }
            },
            read = node.read(&mut from_node) => match read? {
                0 => return Ok(()),
                length => envoy.write_all(&from_node[..length]).await?,
            },
        }
    }
}
