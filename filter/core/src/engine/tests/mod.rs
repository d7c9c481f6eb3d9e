//! The engine with scripted nodes, under virtual time.

mod clients;
mod compression;
mod failures;
mod header_pause;
mod holding;
mod merging;
mod response_parameters;
mod world;
