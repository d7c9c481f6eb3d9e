//! The examples of clients and shippers, run as a reader would run them, in front of the filter and real clusters.
//!
//! `make test-example-clients` fetches what they need and runs them, one cluster after the other; `make
//! test-shippers-full` runs those that have to be compiled first.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod clients;
#[path = "../clients/counts.rs"]
mod counts;
mod filebeat;
mod programs;
mod readme;
mod recorded;
mod rsyslog;
mod shipper;
// The cluster and the Envoy of the other tests with a real cluster.
#[allow(dead_code)]
#[path = "../real/site.rs"]
mod site;

/// How the nodes' JVMs are set up.
const PROFILE: bulk_reshuffle_stack::Profile = bulk_reshuffle_stack::Profile::Fast;
