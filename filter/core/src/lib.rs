//! The decisions of bulk-reshuffle: which node each operation of a `_bulk` request belongs to, which shares of which
//! requests leave in one batch, and what each client is answered.
//!
//! This crate does no I/O and has no clock and no threads. It does not know Envoy: the shell (`filter/plugin`) passes
//! in events with the time, and executes the resulting [`Command`](engine::Command)s.
//!
//! # The one rule for callers
//!
//! After each [`handle`](engine::Engine::handle), execute the commands of [`poll_stream`](engine::Engine::poll_stream)
//! (in a callback of a request's stream) or [`poll_root`](engine::Engine::poll_root) (in any other callback) until it
//! returns `None`.
//!
//! ```
//! use std::collections::VecDeque;
//! use std::time::Duration;
//!
//! use bulk_reshuffle::config::Config;
//! use bulk_reshuffle::engine::{Call, Command, Engine, Input, Origin, RequestId, Response};
//! use bulk_reshuffle::routing::{Snapshot, Unshared};
//!
//! // Two nodes, each with a shard of the index "books".
//! let cluster = Snapshot::read(br#"{
//!     "nodes": {"a": {"name": "es-0"}, "b": {"name": "es-1"}},
//!     "metadata": {"indices": {"books": {
//!         "version": 1, "state": "open", "routing_num_shards": 1024, "aliases": [],
//!         "settings": {"index": {"uuid": "u", "number_of_shards": "2", "version": {"created": "136408127"}}}
//!     }}},
//!     "routing_table": {"indices": {"books": {"shards": {
//!         "0": [{"primary": true, "state": "STARTED", "node": "a"}],
//!         "1": [{"primary": true, "state": "STARTED", "node": "b"}]
//!     }}}}
//! }"#)?;
//! // The cluster answers queries of its state, and a node creates each document of a batch.
//! let answer = |call: &Call| -> Vec<u8> {
//!     let path = call.headers.iter().find(|(name, _)| name == ":path").map_or("", |(_, path)| path);
//!     if path != "/_bulk" {
//!         return cluster.answer(path);
//!     }
//!     let body = String::from_utf8_lossy(&call.body);
//!     let items: Vec<_> = body.lines().step_by(2).map(|line| line.replace("}}", r#","status":201}}"#)).collect();
//!     format!(r#"{{"took":1,"errors":false,"items":[{}]}}"#, items.join(",")).into_bytes()
//! };
//!
//! let config = Config::read(br#"{"coordinator": "es"}"#)?;
//! let origin = Origin { since_epoch: Duration::from_secs(1_700_000_000), vm: [1; 6] };
//! let mut engine = Engine::new(config, origin, Box::new(Unshared));
//! let (mut passed, mut batches, mut replies) = (Vec::new(), Vec::new(), Vec::new());
//!
//! // A client sends the same request twice.
//! let mut inputs = VecDeque::new();
//! for request in [RequestId(1), RequestId(2)] {
//!     let headers = [(":method", "POST"), (":path", "/_bulk"), ("content-type", "application/x-ndjson")];
//!     let headers = headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).into();
//!     inputs.push_back(Input::RequestHead { request, headers, route: Some(b"es".to_vec()), end: false });
//!     let lines = (0..9).map(|id| format!("{{\"index\":{{\"_index\":\"books\",\"_id\":\"{id}\"}}}}\n{{}}\n"));
//!     inputs.push_back(Input::RequestData { request, chunk: lines.collect::<String>().into_bytes(), end: true });
//!     // The loop: handle an input, then execute the commands until there are no more.
//!     while let Some(input) = inputs.pop_front() {
//!         let is_in_stream = matches!(input, Input::RequestHead { .. } | Input::RequestData { .. });
//!         engine.handle(input, Duration::ZERO);
//!         while let Some(command) = if is_in_stream { engine.poll_stream() } else { engine.poll_root() } {
//!             match command {
//!                 Command::PassThrough { request, .. } => {
//!                     passed.push(request);
//!                     inputs.clear(); // The rest of it goes to its upstream.
//!                 }
//!                 Command::Wake => inputs.push_back(Input::Woken),
//!                 Command::Call(call) => {
//!                     batches.extend((!call.body.is_empty()).then(|| call.upstream.to_string()));
//!                     let response = Response { status: 200, body: answer(&call), ..Response::default() };
//!                     inputs.push_back(Input::CallAnswered { call: call.id, response });
//!                 }
//!                 Command::Reply { request, response } => replies.push((request, response)),
//!                 _ => {} // timers, warnings and the access log
//!             }
//!         }
//!     }
//! }
//!
//! // The first request passes through, because the cluster's state is not known yet. The second one is split.
//! assert_eq!(passed, [RequestId(1)]);
//! batches.sort();
//! assert_eq!(batches, ["es-0", "es-1"]);
//! let (request, response) = &replies[0];
//! assert_eq!((*request, response.status), (RequestId(2), 200));
//! assert_eq!(String::from_utf8_lossy(&response.body).matches(r#""status":201"#).count(), 9);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The types that matter
//!
//! In the order of a request: [`Engine`](engine::Engine) takes it in, [`Reader`](bulk::Reader) finds its operations,
//! [`RoutingTable`](routing::RoutingTable) locates each operation's primary shard, and [`Answer`](bulk::Answer) holds
//! the items of a node's answer. Read on in [`engine`], then [`bulk`], [`routing`] and [`config`].
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::unreachable)]
#![warn(missing_docs)]

#[macro_use]
mod reason;

pub mod bulk;
pub mod config;
pub mod document;
pub mod engine;
mod hash;
mod invariant;
mod json;
mod node;
pub mod routing;
mod wildcard;

/// Monotonic time since an origin that the caller chooses and keeps.
pub type Time = std::time::Duration;
