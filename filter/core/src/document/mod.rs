//! The format of requests for single documents: reading a request as an operation of a bulk request, and writing its
//! answer from the item of that operation.
//!
//! ```text
//! PUT /books/_doc/1?routing=a&refresh=true      {"index":{"_index":"books","_id":"1","routing":"a"}}
//! {"title":"Emma"}                         ──▶  {"title":"Emma"}
//!
//! 201 Created                                   201 Created
//! {"_index":"books","_id":"1",…}           ◀──  {"index":{"_index":"books","_id":"1",…,"status":201}}
//! ```
//! Inside a cluster, such a request is carried out as a bulk request of one operation. An update is not, but has the
//! same outcome in the cases that are accepted here.

mod answer;
mod query;
mod target;

pub use answer::{error, failure, location, success, updated};
pub use query::{QueryError, Write};
pub use target::{PathError, Target};
