use bulk_reshuffle::bulk::Answer;

use super::documents::{INDEX, id};
use super::{Load, Routine, node_answer};

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
