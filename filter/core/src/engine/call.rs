//! Making calls: batches to nodes, questions about the cluster state.

use std::rc::Rc;

use super::holds::Batch;
use super::{Call, CallId, Engine, Metric};
use crate::bulk::gzip;
use crate::routing::{Loaded, Question, RefreshError, RoutingTable, UpstreamId};

/// What a call is for.
#[derive(Debug)]
pub enum Purpose {
    /// Writing.
    Batch(Batch),
    /// Refreshing the routing table.
    Question(Question),
}

impl Engine {
    /// The next question about the cluster state, if one is due.
    pub(super) fn next_question(&mut self) -> Option<Call> {
        let question = self.refresh.next(self.now)?;
        let pseudo = [(":method", "GET"), (":path", question.path()), (":authority", &self.config.coordinator)];
        let headers =
            pseudo.into_iter().chain([("accept", "application/json")]).chain(self.config.credentials.headers());
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Some(Call {
            id: self.next_call(Purpose::Question(question)),
            upstream: self.upstreams.name(UpstreamId::COORDINATOR),
            headers,
            body: Vec::new(),
            timeout: self.config.cluster_state.timeout,
        })
    }

    /// The next batch that may leave.
    pub(super) fn next_batch(&mut self) -> Option<Call> {
        let requests = &self.requests;
        let batch = self.holds.next_batch(self.now, |id| requests.contains_key(&id))?;
        let upstream = batch.upstream;
        let mut body = Vec::with_capacity(batch.shares.iter().map(|held| held.bytes as usize).sum());
        for held in &batch.shares {
            if let Some(request) = self.requests.get_mut(&held.request) {
                request.dispatched = true;
                request.copy_share(held.share, &held.selection, &mut body);
            }
        }
        self.count(Metric::Batches(upstream), 1);
        self.count(Metric::BatchOperations(upstream), batch.operations() as usize);
        self.count(Metric::BatchRequests(upstream), batch.shares.len());
        self.count(Metric::BatchBytes(upstream), body.len());
        Some(Call {
            // Each request of a batch keeps its caller, so there is one.
            headers: self.callers.get(batch.caller).cloned().unwrap_or_default(),
            id: self.next_call(Purpose::Batch(batch)),
            upstream: self.upstreams.name(upstream),
            body: if self.config.dispatch.compress { gzip(&body) } else { body },
            timeout: self.config.dispatch.timeout,
        })
    }

    pub(super) fn question_answered(&mut self, status: u16, body: &[u8]) {
        match self.refresh.answered(status, body, self.now) {
            Ok(Some(loaded)) => self.load(&loaded),
            Ok(None) => self.table.iter().for_each(|table| table.trust()),
            Err(error) => self.question_failed(&error),
        }
    }

    pub(super) fn question_unanswered(&mut self, question: Question) {
        self.refresh.failed(self.now);
        self.question_failed(&RefreshError::Unanswered { question });
    }

    fn question_failed(&mut self, error: &RefreshError) {
        self.count(Metric::StateErrors, 1);
        self.warnings.push_back(format!("cluster state: {error}"));
    }

    fn load(&mut self, loaded: &Loaded) {
        let template = &self.config.nodes.template;
        let table = RoutingTable::new(&loaded.state, &loaded.aliases, template, &mut self.upstreams);
        self.table = Some(Rc::new(table));
        self.count(Metric::StateLoads, 1);
    }

    fn next_call(&mut self, purpose: Purpose) -> CallId {
        let id = CallId(self.next_call);
        self.next_call = self.next_call.wrapping_add(1);
        self.calls.insert(id, purpose);
        id
    }
}
