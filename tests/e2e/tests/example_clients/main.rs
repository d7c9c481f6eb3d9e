//! The example clients and shippers, run as a reader would run them, in front of the filter and real clusters.
//!
//! `make test-example-clients` fetches their dependencies and runs them, one cluster after the other.
//! `make test-shippers-full` runs the shippers that must be compiled first.

mod clients;
#[path = "../clients/counts.rs"]
mod counts;
mod filebeat;
mod programs;
mod readme;
mod recorded;
mod rsyslog;
mod shipper;
// The cluster and Envoy, shared with the other tests with a real cluster.
#[allow(dead_code)]
#[path = "../real/shared_scene.rs"]
mod shared_scene;

/// The profile of the nodes' JVMs.
const PROFILE: bulk_reshuffle_stack::Profile = bulk_reshuffle_stack::Profile::Fast;
