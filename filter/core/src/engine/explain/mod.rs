//! Explains how a bulk request would be handled, without sending it. Runs the same code that accepts requests.

mod account;
mod explanation;
mod why;

use std::rc::Rc;

use crate::engine::Engine;
use crate::engine::batching::Apart;
use crate::engine::flow::{admit, room};
use crate::engine::head::{Callers, Head, content_length};
use crate::engine::memory::Memory;
use crate::engine::pass_through::PassThrough;
use crate::engine::request::Request;
use account::Account;
pub use explanation::{
    ExplainedOperation, Explanation, Fault, NodeName, NodeTotal, PipelineVerdict, ShardTotal, Skew, Sum, UnroutedTotal,
    Way,
};
pub use why::Why;

/// The default number of operations that an explanation lists.
pub const LISTED: usize = 1000;

/// Returns the path and query of the bulk request to explain, given the rest of the path after `explain`. The default
/// is `/_bulk`.
pub fn explained_path(rest: &str) -> String {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = if path.is_empty() || path == "/" { "/_bulk" } else { path };
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

impl Engine {
    /// Explains how this request would be handled if it arrived now, without other requests. Returns `None` if it is
    /// not a bulk request.
    ///
    /// The headers must include `:method` and `:path`. The body may be compressed. At most `listed` operations and
    /// shards are listed; the sums include all of them.
    ///
    /// Nothing is sent, held or counted. The explanation contains no headers; of the path it contains only the index
    /// and the routing value, and of a document only its id.
    pub fn explain(&self, headers: Vec<(String, Vec<u8>)>, body: Vec<u8>, listed: usize) -> Option<Explanation> {
        let length = content_length(&headers);
        let head = Head::read(headers, &self.settings.current)?;
        let head = if self.settings.current.enabled { head } else { Err(PassThrough::Disabled) };
        Some(match head.and_then(|head| self.new_request(head, length, body.is_empty())) {
            Ok(request) => self.follow(request, body, listed),
            Err(why) => Explanation::unread(why),
        })
    }

    /// Creates the request without registering it.
    fn new_request(&self, head: Head, length: Option<u64>, is_empty: bool) -> Result<Request, PassThrough> {
        let room = room(&self.settings.current.limits, &Memory::default(), 0);
        let table = admit(self.cluster.fresh_table(self.now), &head, length, is_empty, room)?;
        let head = Rc::new(head);
        let caller = Callers::default().enter(0, &head.caller, &self.settings.current.dispatch.identity);
        let (config, round_robin) = (Rc::clone(&self.settings.current), self.round_robin.wrapping_add(1));
        Ok(Request::new(head, caller, (table, Apart::default()), config, round_robin, Memory::default().charge(0)))
    }

    fn follow(&self, mut request: Request, body: Vec<u8>, listed: usize) -> Explanation {
        let room = room(&self.settings.current.limits, &Memory::default(), 0);
        let read = request.take(body, room, &mut self.ids.clone()).and_then(|()| request.finish());
        Account::of(&request, &self.cluster.upstreams, listed).into_explanation(read.err())
    }
}
