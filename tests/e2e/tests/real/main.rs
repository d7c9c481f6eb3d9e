//! The filter in the real Envoy, in front of a real three-node OpenSearch cluster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod answers;
mod clients;
mod compression;
mod missing_ids;
mod ownership;
mod response_parameters;
mod site;
mod sizes;

/// For a cluster that gets a lot to do.
const PROFILE: bulk_reshuffle_stack::Profile = bulk_reshuffle_stack::Profile::Throughput;
