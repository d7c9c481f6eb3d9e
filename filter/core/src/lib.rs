//! Everything that bulk-reshuffle decides: which node each operation of a `_bulk` request belongs to, which pieces
//! of which requests leave together, and what each client is answered.
//!
//! It has no I/O, no clock and no threads, and knows nothing of Envoy: time is a parameter, and whatever has to be
//! done comes out as a [`Command`](engine::Command).
//!
//! The one rule that a caller must keep: after every [`Engine::handle`](engine::Engine::handle), carry out the
//! commands that [`poll_stream`](engine::Engine::poll_stream) and [`poll_root`](engine::Engine::poll_root) hand
//! out, until there are none.
//!
//! The types that matter, in the order in which a request meets them: [`Engine`](engine::Engine) takes it in,
//! [`Reader`](bulk::Reader) finds its operations, [`RoutingTable`](routing::RoutingTable) says where each one's
//! primary shard is, and [`Answer`](bulk::Answer) is what a node said of a batch.
//!
//! ```
//! use bulk_reshuffle::routing::{Formula, hash};
//!
//! // Where Elasticsearch 8 keeps the document "hello" of an index with 5 shards, made for up to 640.
//! let formula = Formula::Factor { shards: 5, routing_shards: 640 };
//! assert_eq!(formula.shard(hash("hello")), 4);
//! ```

pub mod bulk;
pub mod config;
pub mod engine;
mod json;
pub mod routing;
mod wildcard;

/// Monotonic time since an origin that the caller chooses and keeps.
pub type Time = std::time::Duration;
