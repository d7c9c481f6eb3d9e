//! Making calls: batches to nodes, questions about the cluster state.

use super::failure::Failure;
use super::holds::Batch;
use super::metrics::Counter;
use super::{Call, CallId, Engine, Response};
use crate::bulk::gzip;
use crate::config::Switches;
use crate::routing::{Errand, News, UpstreamId};

/// What a call is for.
#[derive(Debug)]
pub enum Purpose {
    /// Writing.
    Batch(Batch),
    /// Refreshing the routing table.
    Question,
}

impl Engine {
    /// The next question about the cluster state, if one is due.
    pub(super) fn next_question(&mut self) -> Option<Call> {
        if self.is_paused {
            return None;
        }
        let errand = self.state.next(self.now);
        self.is_state_work |= errand.is_some();
        self.follow_state();
        let question = match errand? {
            Errand::Ask(question) => question.path(),
            Errand::Pause => {
                self.is_paused = true;
                return None;
            }
        };
        let authority = authority(&self.config.coordinator);
        let pseudo = [(":method", "GET"), (":path", &question), (":authority", authority)];
        let headers =
            pseudo.into_iter().chain([("accept", "application/json")]).chain(self.config.credentials.headers());
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Some(Call {
            id: self.next_call(Purpose::Question),
            upstream: self.upstreams.name(UpstreamId::COORDINATOR),
            headers,
            body: Vec::new(),
            timeout: self.config.cluster_state.timeout,
        })
    }

    /// The next batch that may leave.
    pub(super) fn next_batch(&mut self) -> Option<Call> {
        let requests = &self.requests;
        let mut batch = self.holds.next_batch(self.now, |id| requests.contains_key(&id))?;
        batch.sent = self.now;
        let upstream = batch.upstream;
        let mut body = Vec::with_capacity(batch.shares.iter().map(|held| held.bytes as usize).sum());
        for held in &batch.shares {
            if let Some(request) = self.requests.get_mut(&held.request) {
                request.dispatched = true;
                request.held = request.held.max(self.now.saturating_sub(held.since));
                request.copy_share(held.share, &held.selection, &mut body);
            }
        }
        self.note_departure(&batch, body.len());
        Some(Call {
            // Each request of a batch keeps its caller, so there is one.
            headers: self.callers.get(batch.caller).cloned().unwrap_or_default(),
            id: self.next_call(Purpose::Batch(batch)),
            upstream: self.upstreams.name(upstream),
            body: if self.config.dispatch.compress { gzip(&body) } else { body },
            timeout: self.config.dispatch.timeout,
        })
    }

    pub(super) fn question_answered(&mut self, response: Response) {
        match Failure::of(&response) {
            Some(failure) => self.question_failed(failure),
            None => {
                self.is_state_work = true;
                self.state.answered(response.status, response.body, self.now);
                self.follow_state();
            }
        }
    }

    pub(super) fn question_failed(&mut self, failure: Failure) {
        self.state.failed(failure != Failure::NotSent, self.now);
        self.follow_state();
    }

    /// Takes in what is new of the cluster.
    pub(super) fn follow_state(&mut self) {
        while let Some(news) = self.state.news() {
            match news {
                News::Loaded => self.count(Counter::StateLoads, 1),
                News::TakenOver => self.count(Counter::StateTakeovers, 1),
                News::Failed(error) => {
                    self.count(Counter::StateErrors, 1);
                    self.warn(format!("cluster state: {error}"));
                }
            }
        }
        if let Some(table) = self.state.new_table(&mut self.upstreams) {
            let gone: Vec<UpstreamId> = self.upstreams.ids().filter(|upstream| !table.has_node(*upstream)).collect();
            self.redirect_from(&gone);
            self.table = Some(table);
        }
        // Whoever reads it has checked that it is an object.
        if let Some(Ok((switches, invalid))) = self.state.new_settings().map(Switches::read) {
            self.switch(switches, invalid);
        }
    }

    fn next_call(&mut self, purpose: Purpose) -> CallId {
        let id = CallId(self.next_call);
        self.next_call = self.next_call.wrapping_add(1);
        self.calls.insert(id, purpose);
        id
    }
}

/// An upstream's name as the host of a request, where it can be one: a proxy in front of the nodes refuses any other.
/// Istio's names end with the host, as `outbound|9200||es.search.svc.cluster.local` does.
fn authority(upstream: &str) -> &str {
    let host = upstream.rsplit('|').next().unwrap_or_default();
    let is_host = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte));
    if is_host { host } else { "elasticsearch" }
}

#[cfg(test)]
mod tests {
    use super::authority;

    #[test]
    fn a_question_asks_for_a_host_that_can_be_one() {
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
