//! Tests of the web pages in a browser.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod explorer;
mod first;
mod live;
