//! Real programs that write to real clusters through the filter: unmodified clients with their own bulk helpers
//! (`clients`), the examples of clients and shippers as a reader would run them (`example_clients`, `shippers`), and
//! writers on every release (`writers`).
//!
//! `make test-clients` and `make test-writers` fetch what they need, and run them.

mod bulk_request;
mod clients;
mod counts;
mod default_distribution;
mod documents;
mod example_clients;
mod execution;
mod readme;
// The cluster and Envoy, shared with the other tests with a real cluster.
#[allow(dead_code)]
#[path = "../real/shared_scene.rs"]
mod shared_scene;
mod shippers;
mod writers;

/// The profile of the nodes' JVMs.
const PROFILE: bulk_reshuffle_stack::Profile = bulk_reshuffle_stack::Profile::Fast;
