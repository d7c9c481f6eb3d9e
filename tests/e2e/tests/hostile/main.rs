//! Hostile and misbehaving clients and nodes, and their cost to other clients. The shipped filter runs in the real
//! Envoy, in front of scripted nodes.
//!
//! After each test:
//! - the VM is alive and stayed within its memory bound;
//! - the memory that the filter counts is back at zero;
//! - another client, which wrote continuously, got only right answers, each at most two seconds later than when alone.
//!
//! The last test prints all results as a table.

mod bodies;
mod connections;
mod documents;
mod fairness;
mod memory;
mod neighbour;
mod nodes;
mod policy;
mod refusals;
mod signatures;
mod table;
mod trial;
