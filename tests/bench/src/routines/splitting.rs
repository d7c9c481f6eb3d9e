use bulk_reshuffle::bulk::gzip;
use bulk_reshuffle::engine::Input;

use super::documents::{bodies, chunks};
use super::driver::Driver;
use super::{Cluster, Load, Routine};

/// The handling of requests until their batches leave, by the engine as the shell drives it: reading, looking up,
/// splitting and batching.
pub struct Splitting {
    driver: Driver,
    further_headers: &'static [(&'static str, &'static str)],
    /// The bodies as they arrive.
    bodies: Vec<Vec<u8>>,
    chunk: usize,
    inputs: Vec<Input>,
    bytes: usize,
}

impl Splitting {
    /// Creates the routine with chunks of `chunk` bytes.
    pub fn new(load: Load, chunk: usize) -> Self {
        let bodies = bodies(load);
        let bytes = bodies.iter().map(Vec::len).sum();
        Self { driver: Driver::new(Cluster::SMALL), further_headers: &[], bodies, chunk, inputs: Vec::new(), bytes }
    }

    /// Creates the routine with bodies that arrive compressed.
    pub fn inflated(load: Load, chunk: usize) -> Self {
        let plain = Self::new(load, chunk);
        let bodies = plain.bodies.iter().map(|body| gzip(body)).collect();
        Self { further_headers: &[("content-encoding", "gzip")], bodies, ..plain }
    }
}

impl Routine for Splitting {
    fn prepare(&mut self) {
        self.driver.settle();
        self.inputs.clear();
        for body in &self.bodies {
            self.inputs.extend(self.driver.request(self.further_headers, chunks(body, self.chunk)));
        }
    }

    fn run(&mut self) {
        for input in self.inputs.drain(..) {
            self.driver.in_stream(input);
        }
        self.driver.wake();
        assert_eq!(self.driver.calls.iter().map(|call| call.body.len()).sum::<usize>(), self.bytes);
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
