//! The `_bulk` format: reading operations out of arriving chunks, writing batches, reading and merging responses.
//!
//! ```text
//! {"index":{"_index":"books","_id":"1"}}      action line
//! {"title":"Emma"}                            source line (index, create, update)
//! {"delete":{"_index":"books","_id":"2"}}     a delete has none
//! ```
//! Every line ends with a newline, including the last.

mod action_line;
mod answer;
mod body;
mod document_id;
mod error_item;
mod filter_path;
mod filtered;
mod gzip;
mod inflater;
mod operation;
mod pretty;
mod quotation;
mod reader;
mod reply;
mod splice;
mod update_body;

pub use action_line::{ActionLine, LineError};
pub use answer::{Answer, AnswerError, AnswerItem, ERROR_ROOM, ITEM_ROOM};
pub use body::Body;
pub use document_id::DocumentId;
pub use error_item::ErrorItem;
pub use filter_path::{FilterPath, Selection, Verdict};
pub use filtered::write_selected;
pub use gzip::gzip;
pub use inflater::{InflateError, Inflater};
pub use operation::{Action, Operation, Placement};
pub use pretty::pretty;
pub use quotation::unquoted;
pub use reader::{MAX_ACTION_LINE, ReadError, Reader};
pub use reply::{Reply, ReplyHead};
pub use splice::{Gap, Parameter, Splice, Splices};
