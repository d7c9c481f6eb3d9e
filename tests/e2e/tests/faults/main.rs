//! Faults and cluster changes under load, with three OpenSearch nodes and Envoy with the filter.
//!
//! After each fault:
//! - the cluster has every document that a client was told it has, and none that a client was told it does not have;
//! - every request was answered, with an item for each operation in its place;
//! - the throughput recovered without a restart of Envoy;
//! - no VM died.
//!
//! After each change, operations go straight to their primaries again within one refresh interval.
//!
//! Other tests replace or kill one of several such Envoys, which must not affect the others' clients.
//!
//! Tests run at the same time, a few at once. Those that change a cluster take turns with one cluster; all others share a second one,
//! and differ in their indices. Writers send at a pace, so that a test hardly changes the rates of the others.

mod backend;
mod cutter;
mod elasticity;
mod endpoints;
mod fault_scene;
mod fleet;
mod freshness;
mod oversized_answer;
mod pods;
mod relocation;
mod replicas;
mod runtime_settings;
mod service;
mod slow_index;
mod survival;
mod turn;
mod witness;

/// A limit far above the duration of any step here, even on a busy machine.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(180);
