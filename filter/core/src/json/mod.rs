//! JSON where the derived readers alone are not exact enough, or would take too long in one piece.

mod object;
mod walk;

pub use object::{Object, object, present};
pub use walk::{Walk, WalkError};
