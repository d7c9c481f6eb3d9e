//! The filter in the real Envoy, in front of scripted nodes, which do what a real cluster does not do on demand.

mod arrival;
mod clients;
mod compression;
mod configuration;
mod edge;
mod failures;
mod fairness;
mod func_e;
mod gateway;
mod header_pause;
mod http2;
mod lies;
mod life_cycle;
mod memory;
mod merge;
mod missing_ids;
mod mistakes;
mod one_cluster;
mod operate;
mod pass_through;
mod policy;
mod response_parameters;
mod shared_parts;
mod split;
mod state;
mod trap;
