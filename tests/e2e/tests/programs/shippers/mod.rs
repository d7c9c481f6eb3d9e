//! The example shippers, run as a reader would run them, in front of the filter and real clusters.
//!
//! `make test-example-clients` fetches their dependencies and runs them, one cluster after the other.
//! `make test-shippers-full` runs the shippers that must be compiled first.

mod filebeat;
mod installed;
mod recorded;
pub mod rsyslog;
mod shipment;

pub use shipment::{is_bad, refuse_on_demand};
