//! Tests of workers with a scripted cluster, in virtual time.

mod changes;
mod checks;
mod cluster;
mod export;
mod failures;
mod harness;
mod leases;
mod mappings;
mod memory;
mod pipelines;
mod sharing;
mod size;
