//! JSON readers, for where derived ones are inexact, too slow, or would take too long in one step.

mod cursor;
mod fast_reader;
mod object;
mod shallow;

pub use cursor::{CursorError, JsonCursor};
pub use fast_reader::FastReader;
pub use object::{Object, object, present};
pub use shallow::shallow_value;
