use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use bulk_reshuffle_stack::port;

use super::{Relay, Sender, Verdict};

/// A relay between Envoy and a node that records the bytes that Envoy sends.
#[derive(Debug)]
pub struct Wiretap {
    pub address: SocketAddr,
    heard: Heard,
    _relay: Relay,
}

/// The bytes sent on each connection.
type Heard = Arc<Mutex<Vec<Vec<u8>>>>;

impl Wiretap {
    pub async fn start(node: SocketAddr) -> Result<Self> {
        Self::start_at(port::loopback(port::free()?), node).await
    }

    pub async fn start_at(address: SocketAddr, node: SocketAddr) -> Result<Self> {
        let heard = Heard::default();
        let noted = Arc::clone(&heard);
        let watch = move || {
            let number = {
                let mut heard = noted.lock().unwrap();
                heard.push(Vec::new());
                heard.len() - 1
            };
            move |sender, bytes: &[u8]| {
                if let (Sender::Client, Some(connection)) = (sender, noted.lock().unwrap().get_mut(number)) {
                    connection.extend_from_slice(bytes);
                }
                Verdict::Pass
            }
        };
        let relay = Relay::start_at(address, move || Some(node), watch).await?;
        Ok(Self { address, heard, _relay: relay })
    }

    /// Returns the bytes that Envoy has sent so far, for each connection.
    pub fn heard(&self) -> Vec<Vec<u8>> {
        self.heard.lock().unwrap().clone()
    }
}
