//! Unchanged clients from their registries, with their own bulk helpers, in front of the filter and real clusters.
//!
//! `make test-clients` fetches what they need and runs them, one cluster after the other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod counts;
mod elasticsearch_7_10;
mod elasticsearch_8;
mod helper;
mod opensearch_2;
mod operation;
mod product;
mod program;
mod report;
// The cluster and the Envoy of the other tests with a real cluster.
#[allow(dead_code)]
#[path = "../real/site.rs"]
mod site;

/// How the nodes' JVMs are set up.
const PROFILE: bulk_reshuffle_stack::Profile = bulk_reshuffle_stack::Profile::Fast;
