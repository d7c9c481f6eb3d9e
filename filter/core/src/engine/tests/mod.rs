//! Tests of the engine with scripted nodes and virtual time.

mod access_log;
mod admin;
mod attribution;
mod busy;
mod clients;
mod compression;
mod coordinator;
mod explain;
mod failures;
mod harness;
mod header_pause;
mod holding;
mod hostile;
mod level;
mod merging;
mod metrics;
mod missing_ids;
mod newer_parameters;
mod one_cluster;
mod pipelines;
mod redirecting;
mod response_parameters;
mod routes;
mod runtime_settings;
mod slots;
mod slow_shards;
