//! What must hold of any input, one function for each part of the filter that reads what others wrote. Each takes
//! arbitrary bytes and panics if something does not hold.
//!
//! libFuzzer calls them (`make fuzz`), and so does a plain test, with all of `corpus/`: what was written by hand to
//! begin with, and what was found to lead somewhere else since. Inputs of more than one part are made of lines, so
//! that they can be read and written.

mod answer;
mod config;
mod day;
mod engine;
mod filter_path;
mod inflater;
mod pieces;
mod reader;
mod shared;
mod state;
#[cfg(feature = "libfuzzer")]
#[doc(hidden)]
pub mod tally;

pub use answer::answer;
pub use config::config;
pub use engine::engine;
pub use filter_path::filter_path;
pub use inflater::inflater;
pub use reader::reader;
pub use shared::shared;
pub use state::state;

/// Panics if it does not hold of an input.
pub type Property = fn(&[u8]);

/// All of them, by their names.
pub const PROPERTIES: &[(&str, Property)] = &[
    ("answer", answer),
    ("config", config),
    ("engine", engine),
    ("filter_path", filter_path),
    ("inflater", inflater),
    ("reader", reader),
    ("shared", shared),
    ("state", state),
];

/// A target for libFuzzer that checks a property, and tells at its end of how much.
#[cfg(feature = "libfuzzer")]
#[macro_export]
macro_rules! target {
    ($property:path) => {
        libfuzzer_sys::fuzz_target!(|input: &[u8]| {
            $crate::tally::add(input.len());
            $property(input);
        });
    };
}
