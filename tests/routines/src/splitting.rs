use bulk_reshuffle::engine::Input;

use crate::documents::{bodies, chunks};
use crate::site::Site;
use crate::{Load, Routine};

/// All that becomes of requests until their batches leave: reading, looking up, sharing out and putting together, by
/// the engine as the shell drives it.
pub struct Splitting {
    site: Site,
    bodies: Vec<Vec<u8>>,
    chunk: usize,
    inputs: Vec<Input>,
}

impl Splitting {
    /// With chunks of this size.
    pub fn new(load: Load, chunk: usize) -> Self {
        Self { site: Site::new(), bodies: bodies(load), chunk, inputs: Vec::new() }
    }
}

impl Routine for Splitting {
    fn prepare(&mut self) {
        self.site.settle();
        self.inputs.clear();
        for body in &self.bodies {
            self.inputs.extend(self.site.request(chunks(body, self.chunk)));
        }
    }

    fn run(&mut self) {
        for input in self.inputs.drain(..) {
            self.site.in_stream(input);
        }
        self.site.wake();
        assert_eq!(self.site.calls.iter().map(|call| call.body.len()).sum::<usize>(), self.bytes());
    }

    fn bytes(&self) -> usize {
        self.bodies.iter().map(Vec::len).sum()
    }
}
