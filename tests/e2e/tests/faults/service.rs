use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use bulk_reshuffle_stack::port;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// What a Service of Kubernetes is to its clients: an address whose new connections lead to its pods in turn. A
/// connection stays with its pod, also when that is no longer one of them.
#[derive(Debug)]
pub struct Service {
    pub address: SocketAddr,
    pods: Arc<Mutex<Vec<SocketAddr>>>,
    serving: JoinHandle<()>,
}

impl Service {
    /// Starts it without any pods.
    pub async fn start() -> Result<Self> {
        let address = port::loopback(port::free()?);
        let (listener, pods) = (TcpListener::bind(address).await?, Arc::default());
        let serving = tokio::spawn(accept(listener, Arc::clone(&pods)));
        Ok(Self { address, pods, serving })
    }

    /// Adds a pod that is ready.
    pub fn add(&self, pod: SocketAddr) {
        lock(&self.pods).push(pod);
    }

    /// Removes one that is about to end.
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

/// An error is a connection that ended, on either side.
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
