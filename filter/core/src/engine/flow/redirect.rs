//! Redirects the shares and batches that wait for a node that has left the cluster.

use crate::engine::Engine;
use crate::engine::batching::Batch;
use crate::engine::metrics::Counter;
use crate::routing::UpstreamId;

impl Engine {
    /// Redirects everything that waits for these upstreams to the coordinating upstream: held shares, batches to be
    /// sent again, and, until the next call, new shares. Batches in flight are not affected.
    ///
    /// Call it for each new routing table, with all known upstreams that have no node in the table.
    pub fn redirect_from(&mut self, gone: &[UpstreamId]) {
        let nodes = gone.iter().copied().filter(|upstream| *upstream != UpstreamId::COORDINATOR);
        self.cluster.set_gone(nodes.clone());
        for upstream in nodes {
            let requests = &self.requests;
            let redirected = self.holds.redirect(upstream, self.now, |id| requests.contains_key(&id));
            for (request, share) in redirected.shares {
                let share = self.requests.get_mut(&request).and_then(|found| found.shares.get_mut(usize::from(share)));
                share.into_iter().for_each(|share| share.destination = share.destination.at_coordinator());
            }
            self.count_redirected(upstream, redirected.batches);
        }
    }

    /// Returns a batch that is to be sent again, redirected if its upstream has no node.
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
