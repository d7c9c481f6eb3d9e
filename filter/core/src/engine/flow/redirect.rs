//! What waits for a node that has left the cluster.

use crate::engine::Engine;
use crate::engine::batching::{Batch, Destination};
use crate::engine::metrics::Counter;
use crate::routing::UpstreamId;

impl Engine {
    /// Lets nothing wait for these upstreams until it is called again: what is held for them, or is to be sent to them
    /// again, waits for the coordinating upstream instead, and so does what would join it. What is on its way there
    /// stays as it is.
    ///
    /// For each new routing table: all upstreams that are known and that none of its nodes has.
    pub fn redirect_from(&mut self, gone: &[UpstreamId]) {
        let nodes = gone.iter().copied().filter(|upstream| *upstream != UpstreamId::COORDINATOR);
        self.cluster.set_gone(nodes.clone());
        for upstream in nodes {
            let requests = &self.requests;
            let redirected = self.holds.redirect(upstream, self.now, |id| requests.contains_key(&id));
            for (request, share) in redirected.shares {
                let share = self.requests.get_mut(&request).and_then(|found| found.shares.get_mut(usize::from(share)));
                share.into_iter().for_each(|share| share.destination = Destination::COORDINATOR);
            }
            self.count_redirected(upstream, redirected.batches);
        }
    }

    /// The same for a batch that is to be sent again.
    pub(crate) fn redirected(&mut self, mut batch: Batch) -> Batch {
        if self.cluster.is_gone(batch.upstream) {
            self.count_redirected(batch.upstream, 1);
            self.release(batch.hold.take());
            batch.upstream = UpstreamId::COORDINATOR;
        }
        batch
    }

    pub(crate) fn count_redirected(&mut self, upstream: UpstreamId, batches: usize) {
        if batches > 0 {
            self.count(Counter::BatchesRedirected(upstream), batches);
        }
    }
}
