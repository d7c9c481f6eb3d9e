//! The example shippers, run as a reader would run them, in front of the filter and real clusters.
//!
//! `make test-clients` fetches their dependencies and runs them, one cluster after the other; with `FULL=1`, also the
//! shippers that must be compiled first.

mod filebeat;
mod installed;
mod recorded;
pub mod rsyslog;
mod shipment;

pub use shipment::{is_bad, refuse_on_demand};
