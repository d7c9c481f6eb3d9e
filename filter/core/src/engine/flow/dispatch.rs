//! Makes calls: batches to nodes, and queries of the cluster state.

use std::rc::Rc;

use crate::bulk::gzip;
use crate::engine::Engine;
use crate::engine::calls::Purpose;
use crate::engine::command::{Call, Response};
use crate::engine::head::batch_timeout;
use crate::engine::metrics::Counter;
use crate::engine::response::Failure;
use crate::routing::{PollEvent, UpstreamId};

impl Engine {
    /// Returns the next query of the cluster state, if one is due.
    pub(crate) fn next_state_query(&mut self) -> Option<Call> {
        let query = self.cluster.next_query(self.now);
        self.follow_state();
        let config = Rc::clone(&self.settings.current);
        let pseudo = [(":method", "GET"), (":path", &query?), (":authority", authority(&config.coordinator))];
        let headers = pseudo.into_iter().chain([("accept", "application/json")]).chain(config.credentials.headers());
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Some(Call {
            id: self.calls.begin(Purpose::StateQuery),
            upstream: self.cluster.upstreams.name(UpstreamId::COORDINATOR),
            headers,
            body: Vec::new(),
            timeout: config.cluster_state.timeout,
        })
    }

    /// Returns the next batch that may leave.
    pub(crate) fn next_batch(&mut self) -> Option<Call> {
        let requests = &self.requests;
        let mut batch = self.holds.next_batch(self.now, |id| requests.contains_key(&id))?;
        batch.sent = self.now;
        self.calls.check_by(self.now.saturating_add(self.settings.current.hold.late_after));
        let upstream = batch.upstream;
        let mut body = Vec::with_capacity(batch.shares.iter().map(|held| held.bytes as usize).sum());
        for held in &batch.shares {
            if let Some(request) = self.requests.get_mut(&held.request) {
                request.dispatched = true;
                request.held = request.held.max(self.now.saturating_sub(held.since));
                request.copy_share(held.share, &held.selection, &mut body);
            }
        }
        self.record_sent(&batch, body.len());
        if self.settings.current.dispatch.compress {
            let zipped = gzip(&body);
            self.outbox.hand_out(body.capacity().saturating_add(zipped.capacity()) as u64);
            body = zipped;
        }
        self.outbox.hand_out(body.capacity() as u64);
        // Each request of a batch keeps its caller registered, so the caller exists.
        let headers = self.callers.get(batch.caller).cloned().unwrap_or_default();
        Some(Call {
            timeout: batch_timeout(&headers, self.settings.current.dispatch.timeout),
            headers,
            id: self.calls.begin(Purpose::Batch(batch)),
            upstream: self.cluster.upstreams.name(upstream),
            body,
        })
    }

    pub(crate) fn state_query_answered(&mut self, response: Response) {
        match Failure::of(&response) {
            Some(failure) => self.state_query_failed(failure),
            None => {
                self.cluster.answered(response.status, response.body, self.now);
                self.follow_state();
            }
        }
    }

    pub(crate) fn state_query_failed(&mut self, failure: Failure) {
        self.cluster.state.failed(failure != Failure::NotSent, self.now);
        self.follow_state();
    }

    /// Handles new cluster events, a new routing table and new run-time settings.
    pub(crate) fn follow_state(&mut self) {
        while let Some(event) = self.cluster.next_event() {
            match event {
                PollEvent::Loaded => self.count(Counter::StateLoads, 1),
                PollEvent::TakenOver => self.count(Counter::StateTakeovers, 1),
                PollEvent::Failed(error) => {
                    self.count(Counter::StateErrors, 1);
                    self.warn(format!("cluster state: {error}"));
                }
            }
        }
        if let Some(gone) = self.cluster.update_table() {
            self.redirect_from(&gone);
        }
        if let Some((settings, invalid)) = self.cluster.new_settings() {
            self.apply_runtime_settings(settings, invalid);
        }
    }
}

/// Returns the host in an upstream's name if it is a valid host, because a proxy in front of the nodes refuses any
/// other. Istio's names end with the host, for example `outbound|9200||es.search.svc.cluster.local`.
fn authority(upstream: &str) -> &str {
    let host = upstream.rsplit('|').next().unwrap_or_default();
    let is_host = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte));
    if is_host { host } else { "elasticsearch" }
}

#[cfg(test)]
mod tests {
    use super::authority;

    #[test]
    fn a_state_query_has_a_valid_authority() {
        for (upstream, host) in [
            ("es", "es"),
            ("es.internal:9200", "es.internal:9200"),
            ("outbound|9200||any.es.internal", "any.es.internal"),
            ("httproute/search/es/rule/0", "elasticsearch"),
            ("outbound|9200||", "elasticsearch"),
            ("search nodes", "elasticsearch"),
        ] {
            assert_eq!(authority(upstream), host);
        }
    }
}
