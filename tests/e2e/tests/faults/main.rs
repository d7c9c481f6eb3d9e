//! Faults of the real parts and changes of the cluster under load: three OpenSearch nodes, Envoy, and the filter in it.
//!
//! After each: what a client was told is in the cluster, and what it was told is not is not; every request was
//! answered, with an item for each operation at its place; the throughput came back without a restart of Envoy; no VM
//! died. After changes: each operation comes straight to its primary again, within one interval of the refresh.
//!
//! And several such Envoys, of which one is replaced or killed: nobody else notices.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod broken_answers;
mod cutter;
mod ended_envoy;
mod fleet;
mod freshness;
mod hung_node;
mod killed_node;
mod oversized_answer;
mod pods;
mod refusals;
mod relocation;
mod replicas;
mod service;
mod site;
mod starved_envoy;
mod switches;
mod witness;
