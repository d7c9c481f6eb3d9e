use bulk_reshuffle::bulk::{Inflater, gzip};

use super::documents::{bodies, chunks};
use super::{Load, Routine};

/// Inflating bodies that arrive compressed, in chunks.
pub struct Inflating {
    arriving: Vec<Vec<Vec<u8>>>,
    inflated: Vec<Vec<u8>>,
    bytes: usize,
}

/// The room for any body, in bytes.
const ROOM: usize = 100 << 20;

impl Inflating {
    /// Creates the routine with compressed chunks of `chunk` bytes.
    pub fn new(load: Load, chunk: usize) -> Self {
        let bodies = bodies(load);
        let bytes = bodies.iter().map(Vec::len).sum();
        let arriving = bodies.iter().map(|body| chunks(&gzip(body), chunk)).collect();
        Self { arriving, inflated: Vec::new(), bytes }
    }
}

impl Routine for Inflating {
    fn prepare(&mut self) {
        self.inflated.clear();
    }

    fn run(&mut self) {
        for chunks in &self.arriving {
            let mut inflater = Inflater::default();
            for mut chunk in chunks.iter().map(Vec::as_slice) {
                loop {
                    let piece = inflater.inflate(&mut chunk, ROOM).expect("gzip");
                    if piece.is_empty() {
                        break;
                    }
                    self.inflated.push(piece);
                }
            }
            inflater.finish().expect("gzip");
        }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
