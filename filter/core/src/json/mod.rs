//! JSON readers, for where derived ones are inexact, too slow, or would take too long in one step.

mod cursor;
mod fast_reader;
mod object;
mod raw;
mod shallow;

pub use cursor::{CursorError, JsonCursor};
pub use fast_reader::FastReader;
#[cfg(test)]
pub use object::MAX_KEY;
pub use object::{Distinct, Object, object, present};
pub use raw::{Text, each_element, each_field};
pub use shallow::{end_of_string, shallow_value};
