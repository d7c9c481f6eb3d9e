//! Explains how a bulk request would be handled, without sending it. Runs the same code that accepts requests.

mod account;
mod explanation;

use std::rc::Rc;

use crate::Time;
use crate::config::{Config, Enabled};
use crate::engine::batching::Apart;
use crate::engine::cluster_view::ClusterView;
use crate::engine::head::{Callers, Document, Head, WithDocument, content_length};
use crate::engine::intake::admit;
use crate::engine::memory::{Memory, Room};
use crate::engine::pass_through::PassThrough;
use crate::engine::requests::{Basis, IdGenerator, Request};
use account::Account;
pub use explanation::{
    ExplainedOperation, Explanation, Fault, NodeName, NodeTotal, PipelineVerdict, ShardTotal, Skew, Sum, UnroutedTotal,
    Way, Why,
};

/// The default number of operations that an explanation lists.
pub const LISTED: usize = 1000;

/// Returns the path and query of the bulk request to explain, given the rest of the path after `explain`. The default
/// is `/_bulk`.
pub fn explained_path(rest: &str) -> String {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = if path.is_empty() || path == "/" { "/_bulk" } else { path };
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// Explains requests, given what the engine knows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Explainer<'a> {
    pub now: Time,
    pub config: &'a Rc<Config>,
    pub cluster: &'a ClusterView,
    pub ids: &'a IdGenerator,
    pub round_robin: usize,
}

impl Explainer<'_> {
    /// Does what [`Engine::explain`](super::Engine::explain) does.
    pub fn explain(self, headers: Vec<(String, Vec<u8>)>, body: Vec<u8>, listed: usize) -> Option<Explanation> {
        let length = content_length(&headers);
        let read = self.read(headers)?;
        let read = if self.config.enabled == Enabled::No { Err(PassThrough::Disabled) } else { read };
        Some(match read.and_then(|(head, document)| self.new_request(head, document, (length, body.is_empty()))) {
            Ok(request) => self.follow(request, body, listed),
            Err(why) => Explanation::unread(why),
        })
    }

    /// Reads headers. Returns `None` if they are neither of a bulk request nor of a single document.
    fn read(self, mut headers: Vec<(String, Vec<u8>)>) -> Option<Result<WithDocument<Head>, PassThrough>> {
        let is_document = Document::is_in(&headers, self.config, self.cluster.table().map(Rc::as_ref));
        match is_document.then(|| Document::read(&mut headers).map(Box::new)).transpose() {
            Ok(document) => Some(Head::read(headers, self.config)?.map(|head| (head, document))),
            Err(why) => Some(Err(why)),
        }
    }

    /// Creates the request without registering it.
    fn new_request(
        self,
        head: Head,
        document: Option<Box<Document>>,
        (length, is_empty): (Option<u64>, bool),
    ) -> Result<Request, PassThrough> {
        let table = self.cluster.fresh_table(self.now);
        let table = admit(table, (&head, document.as_deref()), (length, is_empty), self.room())?;
        let head = Rc::new(head);
        let caller = Callers::default().enter(0, &head.caller, &self.config.dispatch.identity);
        let (config, round_robin) = (Rc::clone(self.config), self.round_robin.wrapping_add(1));
        let may_compress = self.cluster.may_compress(config.dispatch.compress);
        let arrived = self.now;
        let basis =
            Basis { head, config, table, arrived, apart: Apart::default(), round_robin, may_compress, document };
        Ok(Request::new(basis, caller, Memory::default().charge(0)))
    }

    /// Returns the room for a request without others.
    fn room(self) -> Room {
        Memory::new(self.config.limits.memory).room(self.config.limits.max_request)
    }

    fn follow(self, mut request: Request, body: Vec<u8>, listed: usize) -> Explanation {
        let ids = &mut self.ids.clone();
        let read = request.take(body, self.room(), ids).and_then(|()| request.finish(self.room(), ids));
        Account::of(&request, &self.cluster.upstreams, listed).into_explanation(read.err())
    }
}
