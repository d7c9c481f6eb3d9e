//! The parts of core's work, each without the engine.

use bulk_reshuffle::bulk::{ActionLine, Answer, Body, Inflater, Operation, Placement, Reader, gzip};
use bulk_reshuffle::routing::{Route, Unrouted, hash};

use super::documents::{INDEX, bodies, chunks, id};
use super::driver::Driver;
use super::{Cluster, Load, Routine, node_answer};

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
    Ok(Placement {
        id_hash: line.id.as_ref().map(|id| id.len() as u32),
        share: 0,
        under_pipeline: false,
        is_located: false,
    })
}

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

/// Looking up the shards of documents, by their index and id.
pub struct LookingUp {
    driver: Driver,
    ids: Vec<String>,
    routes: Vec<Result<Route, Unrouted>>,
    bytes: usize,
}

impl LookingUp {
    /// Creates the routine for each operation of the load.
    pub fn new(load: Load) -> Self {
        let ids = (0..load.operations()).map(id).collect();
        let routes = Vec::with_capacity(load.operations());
        Self { driver: Driver::new(Cluster::SMALL), ids, routes, bytes: load.operations() * load.bytes }
    }
}

impl Routine for LookingUp {
    fn prepare(&mut self) {
        self.routes.clear();
    }

    fn run(&mut self) {
        let table = self.driver.table();
        self.routes.extend(self.ids.iter().map(|id| table.route(INDEX, Some(hash(id)), None)));
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Splitting nodes' answers into items.
pub struct Cutting {
    answers: Vec<Vec<u8>>,
    operations: usize,
    ready: Vec<Vec<u8>>,
    cut: Vec<Answer>,
}

impl Cutting {
    /// Creates the routine with one node's answer for all operations of the load.
    pub fn new(load: Load) -> Self {
        let ids: Vec<String> = (0..load.operations()).map(id).collect();
        let answers = vec![node_answer::answer(ids.iter().map(|id| (INDEX, id.as_str())))];
        Self { cut: Vec::with_capacity(answers.len()), ready: Vec::new(), operations: ids.len(), answers }
    }
}

impl Routine for Cutting {
    fn prepare(&mut self) {
        self.cut.clear();
        self.ready.clone_from(&self.answers);
    }

    fn run(&mut self) {
        let read = |answer| Answer::read(answer, self.operations).expect("an answer");
        self.cut.extend(self.ready.drain(..).map(read));
    }

    fn bytes(&self) -> usize {
        self.answers.iter().map(Vec::len).sum()
    }
}
