//! JSON where the derived readers alone are not exact or not fast enough, or would take too long in one piece.

mod cursor;
mod object;
mod plain;
mod shallow;

pub use cursor::{CursorError, JsonCursor};
pub use object::{Object, object, present};
pub use plain::Plain;
pub use shallow::shallow_value;
