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
//! use std::time::Duration;
//!
//! use bulk_reshuffle::config::Config;
//! use bulk_reshuffle::engine::{Command, Engine, Input, Origin, RequestId};
//! use bulk_reshuffle::routing::Unshared;
//!
//! let config = Config::read(br#"{"coordinator": "es"}"#)?;
//! let origin = Origin { since_epoch: Duration::from_secs(1_700_000_000), vm: [1; 6] };
//! let mut engine = Engine::new(config, origin, Box::new(Unshared));
//!
//! // The first bulk request passes through unchanged, because the engine does not know the cluster's state yet.
//! let headers = [(":method", "POST"), (":path", "/_bulk"), ("content-type", "application/x-ndjson")];
//! let headers = headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).into();
//! let (request, route) = (RequestId(1), Some(b"es".to_vec()));
//! engine.handle(Input::RequestHead { request, headers, route, end: false }, Duration::ZERO);
//! assert!(matches!(engine.poll_stream(), Some(Command::PassThrough { .. })));
//!
//! // It wakes the root, which queries the cluster.
//! assert_eq!(engine.poll_stream(), Some(Command::Wake));
//! assert_eq!(engine.poll_stream(), None);
//! engine.handle(Input::Woken, Duration::ZERO);
//! let Some(Command::Call(call)) = engine.poll_root() else { panic!("expected a query") };
//! assert_eq!(call.upstream.as_ref(), "es");
//! # Ok::<(), bulk_reshuffle::config::ConfigError>(())
//! ```
//!
//! # The types that matter
//!
//! In the order of a request: [`Engine`](engine::Engine) takes it in, [`Reader`](bulk::Reader) finds its operations,
//! [`RoutingTable`](routing::RoutingTable) locates each operation's primary shard, and [`Answer`](bulk::Answer) holds
//! the items of a node's answer. Read on in [`engine`], then [`bulk`], [`routing`] and [`config`].
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::unreachable)]

#[macro_use]
mod reason;

pub mod bulk;
pub mod config;
pub mod engine;
mod hash;
mod invariant;
mod json;
mod node;
pub mod routing;
mod wildcard;

/// Monotonic time since an origin that the caller chooses and keeps.
pub type Time = std::time::Duration;
