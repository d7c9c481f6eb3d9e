use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use bulk_reshuffle_stack::port;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// An imitation of a Kubernetes Service: an address whose new connections go to its pods by round robin. A connection
/// stays with its pod, even after the pod is removed.
#[derive(Debug)]
pub struct Service {
    pub address: SocketAddr,
    pods: Arc<Mutex<Vec<SocketAddr>>>,
    serving: JoinHandle<()>,
}

impl Service {
    /// Starts the service without pods.
    pub async fn start() -> Result<Self> {
        let address = port::loopback(port::free()?);
        let (listener, pods) = (TcpListener::bind(address).await?, Arc::default());
        let serving = tokio::spawn(accept(listener, Arc::clone(&pods)));
        Ok(Self { address, pods, serving })
    }

    /// Adds a ready pod.
    pub fn add(&self, pod: SocketAddr) {
        lock(&self.pods).push(pod);
    }

    /// Removes a pod that is about to end.
    pub fn remove(&self, pod: SocketAddr) {
        lock(&self.pods).retain(|known| *known != pod);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn accept(listener: TcpListener, pods: Arc<Mutex<Vec<SocketAddr>>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let mut pods = lock(&pods);
        if let Some(pod) = pods.first().copied() {
            pods.rotate_left(1);
            connections.spawn(carry(stream, pod));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Relays a connection until both sides have closed it, or one side fails.
async fn carry(mut client: TcpStream, pod: SocketAddr) -> Result<()> {
    let mut pod = TcpStream::connect(pod).await?;
    for stream in [&client, &pod] {
        stream.set_nodelay(true)?;
    }
    copy_bidirectional(&mut client, &mut pod).await?;
    Ok(())
}

fn lock(pods: &Mutex<Vec<SocketAddr>>) -> MutexGuard<'_, Vec<SocketAddr>> {
    pods.lock().unwrap_or_else(PoisonError::into_inner)
}
