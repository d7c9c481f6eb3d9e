//! The work of core for each request: single routines, and all of them through the engine, each with its prepared
//! input. Divan, callgrind and Envoy's V8 all measure these same routines.
#![allow(clippy::expect_used, clippy::indexing_slicing)]

mod answering;
mod arrivals;
mod cluster;
mod cutting;
pub mod documents;
mod growth;
mod inflating;
mod load;
mod looking_up;
mod measurement;
pub mod node_answer;
mod reading;
mod routine;
mod serving;
mod site;
mod splitting;

pub use answering::Answering;
pub use arrivals::{Arrivals, Batches};
pub use cluster::Cluster;
pub use cutting::Cutting;
pub use growth::{Case, SERIES, Series};
pub use inflating::Inflating;
pub use load::Load;
pub use looking_up::LookingUp;
pub use measurement::Measurement;
pub use reading::Reading;
pub use routine::Routine;
pub use serving::Serving;
pub use site::Site;
pub use splitting::Splitting;

/// The size of a chunk, in bytes. Envoy passes in 16 to 64 KiB of a large body at once.
pub const CHUNK: usize = 32 << 10;

/// A function that prepares a routine for a load.
pub type Make = fn(Load) -> Box<dyn Routine>;

/// All routines, by name.
pub const ROUTINES: &[(&str, Make)] = &[
    ("reading", |load| Box::new(Reading::new(load, CHUNK))),
    ("inflating", |load| Box::new(Inflating::new(load, CHUNK))),
    ("looking up", |load| Box::new(LookingUp::new(load))),
    ("splitting", |load| Box::new(Splitting::new(load, CHUNK))),
    ("splitting gzip", |load| Box::new(Splitting::inflated(load, CHUNK))),
    ("cutting", |load| Box::new(Cutting::new(load))),
    ("answering", |load| Box::new(Answering::new(load, CHUNK))),
];
