//! Workers in front of a scripted cluster, under virtual time.

mod changes;
mod cluster;
mod export;
mod failures;
mod leases;
mod memory;
mod sharing;
mod size;
mod world;
