//! Handles an answer in which an item is not at the position of its operation.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::results::is_for;
use crate::bulk::{Action, Answer, AnswerItem, Operation, Placement};
use crate::engine::Engine;
use crate::engine::batching::{Batch, HeldShare, Selection};
use crate::engine::command::Headers;
use crate::engine::metrics::Counter;
use crate::engine::response::{Failure, ItemNumbers, NodeAnswer, Outcome};
use crate::invariant::Count;

/// The properties that identify an item where its position does not.
type Mark = (Action, u32);

/// The status of an item whose document did not exist before.
const CREATED: u16 = 201;

impl Engine {
    /// Assigns items to the operations that action, index and id identify with certainty, or their position if nothing
    /// shows another order. The outcome of the other operations is unknown. Requests for the indices of misplaced items
    /// pass through until the next poll of the cluster state, which comes soon.
    pub(crate) fn attribute(&mut self, batch: &Batch, headers: &Headers, answer: Answer) {
        self.count(Counter::AnswersMismatched(batch.upstream), 1);
        self.mark_indices_uncertain(batch, &answer);
        self.cluster.state.poll_soon(self.now);
        let answer = Rc::new(NodeAnswer::new(headers, answer, &self.memory));
        let found = self.found(batch, &answer.answer);
        let unknown = self.unknown(batch.upstream, Failure::Mismatch);
        let mut found = found.into_iter();
        let mut lost = 0_usize;
        for held in &batch.shares {
            self.record(held, unknown.clone());
            let places = self.places(held);
            lost = lost.plus(places.len(), "memory bounds the operations");
            let found = places.into_iter().zip(found.by_ref()).filter_map(|(place, item)| Some((place, item?)));
            let (places, items): (Vec<u32>, Vec<u32>) = found.unzip();
            lost = lost.minus(items.len(), "each place has one item");
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
        self.holds.completed(batch, self.now);
    }

    /// Returns the number of its item for each operation of a batch; `None` if that is uncertain.
    fn found(&self, batch: &Batch, answer: &Answer) -> Vec<Option<u32>> {
        if self.is_in_order(batch, &answer.items) {
            let is_certain = |item: &AnswerItem| !(batch.lost && item.is_uncertain());
            return (0..).zip(&answer.items).map(|(number, item)| is_certain(item).then_some(number)).collect();
        }
        let sent = only_ones(self.batch_operations(batch).map(|(_, operation)| mark_of_operation(operation)));
        let came = only_ones(answer.items.iter().map(|item| Some((item.action, item.id_hash?))));
        let any_id: BTreeSet<Action> =
            self.batch_operations(batch).filter_map(|(_, operation)| any_id(operation)).collect();
        let operations = self.batch_operations(batch).enumerate();
        operations
            .map(|(number, (held, operation))| {
                let mark = mark_of_operation(operation).filter(|(action, _)| !any_id.contains(action))?;
                let item = came.get(&mark).copied().flatten().filter(|_| sent.get(&mark) == Some(&Some(number)))?;
                let index = answer.index(answer.items.get(item)?)?;
                let is_certain = !(batch.lost && answer.items.get(item)?.is_uncertain());
                (is_certain && self.requests.get(&held.request)?.writes_to(operation, &index)).then_some(item as u32)
            })
            .collect()
    }

    /// Returns whether the items are in order, though some have other ids than their operations. A pipeline that sets
    /// ids may be newer than the last poll.
    ///
    /// An item with the id of an operation at another position would show another order. Without such an item, some
    /// releases always keep the order. The others do unless a pipeline drops or fails a document, and then one item is
    /// no success, or comes without a new document.
    fn is_in_order(&self, batch: &Batch, items: &[AnswerItem]) -> bool {
        let orders_items = self.cluster.table().is_some_and(|table| table.orders_items());
        let sent: BTreeSet<Mark> =
            self.batch_operations(batch).filter_map(|(_, operation)| mark_of_operation(operation)).collect();
        let is_in_place = |(item, (_, operation)): (&AnswerItem, (&HeldShare, &Operation))| {
            let has_its_id = item.id_hash.is_some() && item.id_hash == operation.placement.id_hash;
            let is_elsewhere = || item.id_hash.is_some_and(|id| sent.contains(&(item.action, id)));
            let may_be_its_own = || item.id_hash.is_some() && (orders_items || item.status == CREATED);
            item.action == operation.action && (has_its_id || !is_elsewhere() && may_be_its_own())
        };
        items.len() as u64 == batch.operations() && items.iter().zip(self.batch_operations(batch)).all(is_in_place)
    }

    /// Stops merging for the indices of all operations whose position has no item or the item of another operation.
    fn mark_indices_uncertain(&mut self, batch: &Batch, answer: &Answer) {
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

/// Returns the action of an operation whose item may have any id, because a pipeline may choose it.
fn any_id(operation: &Operation) -> Option<Action> {
    let Placement { id_hash, under_pipeline, .. } = operation.placement;
    (under_pipeline && id_hash.is_none()).then_some(operation.action)
}

/// Returns the number of each mark that occurs once; `None` for marks that occur more often. The map is ordered,
/// because clients choose the ids and could provoke hash collisions.
fn only_ones(marks: impl Iterator<Item = Option<Mark>>) -> BTreeMap<Mark, Option<usize>> {
    let mut numbers = BTreeMap::new();
    for (number, mark) in marks.enumerate() {
        if let Some(mark) = mark {
            numbers.entry(mark).and_modify(|known| *known = None).or_insert(Some(number));
        }
    }
    numbers
}
