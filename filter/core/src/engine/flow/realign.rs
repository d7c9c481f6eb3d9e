//! An answer in which an item does not stand where its operation was sent.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::results::is_for;
use crate::bulk::{Action, Answer, Operation};
use crate::engine::Engine;
use crate::engine::batching::{Batch, HeldShare, Selection};
use crate::engine::command::Headers;
use crate::engine::metrics::Counter;
use crate::engine::response::{Failure, ItemNumbers, NodeAnswer, Outcome};

/// By what an item is recognised where its position is no proof.
type Mark = (Action, u32);

impl Engine {
    /// Gives those operations their items that action, index and id leave no doubt of. The others are of unknown
    /// outcome, and nothing is merged for their indices until the cluster's state was looked at again.
    pub(crate) fn attribute(&mut self, batch: &Batch, headers: &Headers, answer: Answer) {
        self.count(Counter::AnswersMismatched(batch.upstream), 1);
        self.distrust(batch, &answer);
        let answer = Rc::new(NodeAnswer::new(headers, answer, &self.memory));
        let found = self.found(batch, &answer.answer);
        let unknown = self.unknown(batch.upstream, Failure::Mismatch);
        let mut found = found.into_iter();
        let mut lost = 0_usize;
        for held in &batch.shares {
            self.record(held, unknown.clone());
            let places = self.places(held);
            lost = lost.saturating_add(places.len());
            let found = places.into_iter().zip(found.by_ref()).filter_map(|(place, item)| Some((place, item?)));
            let (places, items): (Vec<u32>, Vec<u32>) = found.unzip();
            lost = lost.saturating_sub(items.len());
            let bytes = items.iter().filter_map(|item| answer.answer.items.get(*item as usize));
            let bytes = bytes.map(|item| answer.answer.text(item).len() as u64).sum();
            if !items.is_empty() {
                let selection = Selection::Places(places.into());
                let outcome = Outcome::Items { answer: Rc::clone(&answer), items: ItemNumbers::These(items.into()) };
                self.record(&HeldShare { selection, ..held.clone() }, outcome);
            }
            self.answered(held, bytes);
            self.finish(held);
        }
        self.count(Counter::OperationsUnknown(batch.upstream), lost);
        self.holds.came_back(batch, self.now);
    }

    /// For each operation of a batch the number of its item.
    fn found(&self, batch: &Batch, answer: &Answer) -> Vec<Option<u32>> {
        let sent = only_ones(self.batch_operations(batch).map(|(_, operation)| mark_of_operation(operation)));
        let came = only_ones(answer.items.iter().map(|item| Some((item.action, item.id_hash?))));
        let operations = self.batch_operations(batch).enumerate();
        operations
            .map(|(number, (held, operation))| {
                let mark = mark_of_operation(operation)?;
                let item = came.get(&mark).copied().flatten().filter(|_| sent.get(&mark) == Some(&Some(number)))?;
                let index = answer.index(answer.items.get(item)?)?;
                let is_certain = !(batch.lost && answer.items.get(item)?.is_doubtful());
                (is_certain && self.requests.get(&held.request)?.writes_to(operation, &index)).then_some(item as u32)
            })
            .collect()
    }

    /// Stops merging for the indices of all operations at whose place another's item stands, or none.
    fn distrust(&mut self, batch: &Batch, answer: &Answer) {
        let Some(table) = self.cluster.table() else { return };
        let items = answer.items.iter().map(Some).chain(std::iter::repeat(None));
        for ((held, operation), item) in self.batch_operations(batch).zip(items) {
            let fits =
                item.is_some_and(|item| is_for(item, operation)) && answer.items.len() as u64 == batch.operations();
            if let (false, Some(request)) = (fits, self.requests.get(&held.request)) {
                request.read_line(operation, |line, default_index| {
                    table.distrust(line.index.as_deref().or(default_index).unwrap_or_default());
                });
            }
        }
    }

    fn places(&self, held: &HeldShare) -> Vec<u32> {
        let share = self.requests.get(&held.request).and_then(|request| request.shares.get(usize::from(held.share)));
        share.map(|share| held.selection.places(share.operations.len()).collect()).unwrap_or_default()
    }
}

fn mark_of_operation(operation: &Operation) -> Option<Mark> {
    Some((operation.action, operation.placement.id_hash?))
}

/// The number of each mark that occurs once; `None` for those that occur more often. In order, for clients choose the
/// ids.
fn only_ones(marks: impl Iterator<Item = Option<Mark>>) -> BTreeMap<Mark, Option<usize>> {
    let mut numbers = BTreeMap::new();
    for (number, mark) in marks.enumerate() {
        if let Some(mark) = mark {
            numbers.entry(mark).and_modify(|known| *known = None).or_insert(Some(number));
        }
    }
    numbers
}
