//! JSON readers, for where derived ones are inexact, too slow, or would take too long in one step.

mod cursor;
mod object;
mod plain;
mod shallow;

pub use cursor::{CursorError, JsonCursor};
pub use object::{Object, object, present};
pub use plain::Plain;
pub use shallow::shallow_value;
