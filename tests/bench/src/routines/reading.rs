use bulk_reshuffle::bulk::{ActionLine, Body, Operation, Placement, Reader};

use super::documents::{bodies, chunks};
use super::{Load, Routine};

/// Finding the operations of bodies that arrive in chunks.
pub struct Reading {
    arriving: Vec<Vec<Vec<u8>>>,
    ready: Vec<Vec<Vec<u8>>>,
    found: Vec<(Body, Vec<Operation>)>,
    bytes: usize,
}

impl Reading {
    /// Creates the routine with chunks of `chunk` bytes.
    pub fn new(load: Load, chunk: usize) -> Self {
        let bodies = bodies(load);
        let bytes = bodies.iter().map(Vec::len).sum();
        let arriving = bodies.iter().map(|body| chunks(body, chunk)).collect();
        Self { arriving, ready: Vec::new(), found: Vec::with_capacity(load.requests), bytes }
    }
}

impl Routine for Reading {
    fn prepare(&mut self) {
        self.found.clear();
        self.ready.clone_from(&self.arriving);
    }

    fn run(&mut self) {
        for chunks in self.ready.drain(..) {
            let (mut body, mut reader, mut operations) = (Body::default(), Reader::default(), Vec::new());
            for chunk in chunks {
                body.push(chunk);
                reader.read(&body, &mut operations, place).expect("an operation that can be read");
            }
            self.found.push((body, operations));
        }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Returns a fixed placement, because this routine measures only reading.
fn place(line: &ActionLine<'_>, _: u32) -> Result<Placement, ()> {
    Ok(Placement { id_hash: line.id.as_ref().map(|id| id.len() as u32), share: 0, under_pipeline: false })
}
