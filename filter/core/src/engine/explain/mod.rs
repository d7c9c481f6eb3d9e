//! Explains how a bulk request is handled, without sending it: it runs the same code that takes requests in.

mod account;
mod explanation;
mod why;

use std::rc::Rc;

use crate::engine::Engine;
use crate::engine::flow::{admit, room};
use crate::engine::head::{Callers, Head, content_length};
use crate::engine::memory::Memory;
use crate::engine::pass_through::PassThrough;
use crate::engine::request::Request;
use account::Account;
pub use explanation::{
    ExplainedOperation, Explanation, Fault, NodeName, NodeTotal, ShardTotal, Skew, Sum, UnroutedTotal, Way,
};
pub use why::Why;

/// How many operations an explanation lists unless told otherwise.
pub const LISTED: usize = 1000;

/// Path and query of the bulk request that is meant by what follows `explain` in a path: `/_bulk` if that is nothing.
pub fn explained_path(rest: &str) -> String {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = if path.is_empty() || path == "/" { "/_bulk" } else { path };
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

impl Engine {
    /// Tells what would become of this request if it came now and nothing else were here; `None` if it is no bulk
    /// request. The headers are a request's, with `:method` and `:path`; the body is as it would arrive, compressed or
    /// not. At most `listed` operations and shards are told of one by one; sums are over all of them.
    ///
    /// Nothing is sent, held or counted. Of the headers it shows none, of the path the index and the routing value, of
    /// a document its id.
    pub fn explain(&self, headers: Vec<(String, Vec<u8>)>, body: Vec<u8>, listed: usize) -> Option<Explanation> {
        let length = content_length(&headers);
        let head = Head::read(headers, &self.settings.current)?;
        let head = if self.settings.current.enabled { head } else { Err(PassThrough::Disabled) };
        Some(match head.and_then(|head| self.imagine(head, length, body.is_empty())) {
            Ok(request) => self.follow(request, body, listed),
            Err(why) => Explanation::unread(why),
        })
    }

    /// The request that it would be.
    fn imagine(&self, head: Head, length: Option<u64>, is_empty: bool) -> Result<Request, PassThrough> {
        let room = room(&self.settings.current.limits, &Memory::default(), 0);
        let table = admit(self.cluster.table(), &head, length, is_empty, room)?;
        let head = Rc::new(head);
        let caller = Callers::default().enter(0, &head.caller, &self.settings.current.dispatch.identity);
        let (config, turn) = (Rc::clone(&self.settings.current), self.turn.wrapping_add(1));
        Ok(Request::new(head, caller, table, config, turn, Memory::default().charge(0)))
    }

    fn follow(&self, mut request: Request, body: Vec<u8>, listed: usize) -> Explanation {
        let room = room(&self.settings.current.limits, &Memory::default(), 0);
        let read = request.take(body, room, &mut self.ids.clone()).and_then(|()| request.finish());
        Account::of(&request, &self.cluster.upstreams, listed).into_explanation(read.err())
    }
}
