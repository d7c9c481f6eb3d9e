use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use bulk_reshuffle_e2e::relay::{Relay, Verdict};

/// An imitation of a Kubernetes Service: an address whose new connections go to its pods by round robin. A connection
/// stays with its pod, even after the pod is removed.
pub struct Service {
    pub address: SocketAddr,
    pods: Arc<Mutex<Vec<SocketAddr>>>,
    _relay: Relay,
}

impl Service {
    pub async fn start() -> Result<Self> {
        let pods = Arc::<Mutex<Vec<SocketAddr>>>::default();
        let ready = Arc::clone(&pods);
        let next = move || {
            let mut pods = ready.lock().unwrap();
            let pod = pods.first().copied()?;
            pods.rotate_left(1);
            Some(pod)
        };
        let relay = Relay::start(next, || |_, _: &[u8]| Verdict::Pass).await?;
        Ok(Self { address: relay.address, pods, _relay: relay })
    }

    pub fn add(&self, pod: SocketAddr) {
        self.pods.lock().unwrap().push(pod);
    }

    /// Removes a pod that is about to end.
    pub fn remove(&self, pod: SocketAddr) {
        self.pods.lock().unwrap().retain(|known| *known != pod);
    }
}
