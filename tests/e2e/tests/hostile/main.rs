//! Hostile and badly behaved clients and nodes, and what they cost others: the shipped filter in the real Envoy, in front of
//! scripted nodes.
//!
//! After each: the VM lives and has kept to its bound, what the filter has counted is back at zero, and another client, which
//! wrote all the time, got each answer right and at most two seconds later than alone.
//!
//! The last test shows all of it in one table.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod admin;
mod answers;
mod bodies;
mod callers;
mod connections;
mod fairness;
mod memory;
mod neighbour;
mod nodes;
mod policy;
mod refusals;
mod signatures;
mod table;
mod trial;
