//! The engine with scripted nodes, under virtual time.

mod clients;
mod compression;
mod failures;
mod holding;
mod merging;
mod world;
