//! Tests that the dashboard has data and that the alerts fire when they should.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod dashboard;
mod live;
mod rules;
