//! JSON where the derived readers alone are not exact or not fast enough, or would take too long in one piece.

mod object;
mod plain;
mod walk;

pub use object::{Object, object, present};
pub use plain::Plain;
pub use walk::{Walk, WalkError};
