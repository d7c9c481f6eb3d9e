//! Reads the headers of a request: whether it is a bulk request or writes a single document, which caller sent it, and where its route leads.

mod bulk_head;
mod caller;
mod cluster_timeout;
mod document;
mod head_cache;
mod header_pause;
mod identity;
mod routes;

pub use bulk_head::{Head, content_length, may_be_bulk};
pub use caller::{CallerId, Callers, TRANSPORT_HEADERS};
pub use cluster_timeout::batch_timeout;
pub use document::{Document, WithDocument};
pub use head_cache::HeadCache;
pub use header_pause::{Arrival, HeaderPauses};
pub use identity::{Identity, SlotClass};
pub use routes::Routes;
