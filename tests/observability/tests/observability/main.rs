//! The dashboard shows what there is, and the alerts are raised when they should.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod dashboard;
mod live;
mod rules;
