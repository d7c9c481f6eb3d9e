//! Unmodified clients from their registries, with their own bulk helpers, in front of the filter and real clusters.
//!
//! `make test-clients` fetches their dependencies and runs them, one cluster after the other.

mod counts;
mod elasticsearch_7_10;
mod elasticsearch_8;
mod helper;
mod opensearch_2;
mod operation;
mod product;
mod program;
mod report;
// The cluster and Envoy, shared with the other tests with a real cluster.
#[allow(dead_code)]
#[path = "../real/shared_scene.rs"]
mod shared_scene;

/// The profile of the nodes' JVMs.
const PROFILE: bulk_reshuffle_stack::Profile = bulk_reshuffle_stack::Profile::Fast;
