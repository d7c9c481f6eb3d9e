use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use bulk_reshuffle_e2e::relay::{Relay, Verdict};

/// An imitation of a Kubernetes Service: an address whose new connections go to its pods by round robin. A connection
/// stays with its pod, even after the pod is removed.
#[derive(Debug)]
pub struct Service {
    pub address: SocketAddr,
    pods: Arc<Mutex<Vec<SocketAddr>>>,
    _relay: Relay,
}

impl Service {
    /// Starts the service without pods.
    pub async fn start() -> Result<Self> {
        let pods = Arc::<Mutex<Vec<SocketAddr>>>::default();
        let ready = Arc::clone(&pods);
        let next = move || {
            let mut pods = lock(&ready);
            let pod = pods.first().copied()?;
            pods.rotate_left(1);
            Some(pod)
        };
        let relay = Relay::start(next, || |_, _: &[u8]| Verdict::Pass).await?;
        Ok(Self { address: relay.address, pods, _relay: relay })
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

fn lock(pods: &Mutex<Vec<SocketAddr>>) -> MutexGuard<'_, Vec<SocketAddr>> {
    pods.lock().unwrap_or_else(PoisonError::into_inner)
}
