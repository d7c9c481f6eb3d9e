use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use bulk_reshuffle_e2e::relay::{Relay, Sender, Verdict};

/// A relay between Envoy and a node that resets connections, alternately before and within an answer of the node.
pub struct Cutter {
    pub address: SocketAddr,
    script: Arc<Script>,
    _relay: Relay,
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
        let script = Arc::new(Script::default());
        let read = Arc::clone(&script);
        let watch = || move |sender, piece: &[u8]| read.verdict(sender, piece);
        let relay = Relay::start(move || Some(node), watch).await?;
        Ok(Self { address: relay.address, script, _relay: relay })
    }

    /// Cuts one of this many pieces of answers from now on; 0 disables cuts.
    pub fn cut(&self, one_of: usize) {
        self.script.one_of.store(one_of, Ordering::Relaxed);
    }

    pub fn cuts(&self) -> usize {
        self.script.cuts.load(Ordering::Relaxed)
    }
}

impl Script {
    fn verdict(&self, sender: Sender, piece: &[u8]) -> Verdict {
        let one_of = self.one_of.load(Ordering::Relaxed);
        let is_counted = sender == Sender::Server && one_of > 0;
        if is_counted && self.pieces.fetch_add(1, Ordering::Relaxed) % one_of == one_of - 1 {
            let cut = self.cuts.fetch_add(1, Ordering::Relaxed);
            return Verdict::Cut(piece.len() / 2 * (cut % 2));
        }
        Verdict::Pass
    }
}
