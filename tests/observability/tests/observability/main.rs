//! Tests that the dashboard has data and that the alerts fire when they should.
#![allow(missing_docs)]

mod dashboard;
mod live;
mod rules;
