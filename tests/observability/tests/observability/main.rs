//! Tests that the dashboard has data and that the alerts fire when they should.

mod dashboard;
mod live;
mod rules;
