//! Properties that must hold for any input: one function for each part of the filter that reads external data. Each
//! takes arbitrary bytes and panics if a property does not hold.
//!
//! libFuzzer calls these functions (`make fuzz`), and so does a plain test with all of `corpus/`. The corpus has
//! handwritten inputs, and those that reached new code since. Inputs of several parts consist of lines, so that they
//! can be read and written.

mod answer;
mod config;
mod document;
mod engine;
mod filter_path;
mod inflater;
mod pieces;
mod reader;
mod run;
mod shared;
mod state;
#[cfg(feature = "libfuzzer")]
#[doc(hidden)]
pub mod tally;

pub use answer::answer;
pub use config::config;
pub use document::document;
pub use engine::engine;
pub use filter_path::filter_path;
pub use inflater::inflater;
pub use reader::reader;
pub use shared::shared;
pub use state::state;

/// A function that panics if its property does not hold for an input.
pub type Property = fn(&[u8]);

/// All properties, by name.
pub const PROPERTIES: &[(&str, Property)] = &[
    ("answer", answer),
    ("config", config),
    ("document", document),
    ("engine", engine),
    ("filter_path", filter_path),
    ("inflater", inflater),
    ("reader", reader),
    ("shared", shared),
    ("state", state),
];

/// Defines a libFuzzer target that checks a property, and reports the number of inputs at the end.
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
