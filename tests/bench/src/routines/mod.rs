//! The work of core for each request: single routines, and all of them through the engine, each with its prepared
//! input. Divan, callgrind and Envoy's V8 all measure these same routines.

mod answering;
mod arrivals;
mod cluster;
pub mod documents;
mod driver;
mod growth;
mod load;
mod measurement;
pub mod node_answer;
mod parts;
mod serving;
mod splitting;

pub use answering::Answering;
pub use arrivals::{Arrivals, Batches};
pub use cluster::Cluster;
pub use driver::Driver;
pub use growth::{Case, SERIES, Series};
pub use load::Load;
pub use measurement::Measurement;
pub use parts::{Cutting, Inflating, LookingUp, Reading};
pub use serving::Serving;
pub use splitting::Splitting;

/// The size of a chunk, in bytes. Envoy passes in 16 to 64 KiB of a large body at once.
pub const CHUNK: usize = 32 << 10;

/// A piece of work that is measured repeatedly.
pub trait Routine {
    /// Prepares the next run, and drops the results of the last. This is not measured.
    fn prepare(&mut self);

    /// Runs the measured work, once after each [`prepare`](Self::prepare).
    fn run(&mut self);

    /// Returns how many bytes a run processes: of the requests' uncompressed bodies, or of the nodes' answers.
    fn bytes(&self) -> usize;
}

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
