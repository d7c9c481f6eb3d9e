//! A bulk request that is being read, split or waited for, and its reply.

mod bulk_request;
mod id_generator;
mod operation_router;
mod reply;

pub use bulk_request::{Part, Request, Room};
pub use id_generator::{IdGenerator, Origin};
