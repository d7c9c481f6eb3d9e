//! Reads an answer in which an item is not at the position of its operation.

use std::collections::{BTreeMap, BTreeSet};

use super::verdict::Misplaced;
use crate::bulk::{Action, Answer, AnswerItem, Operation, Placement};
use crate::engine::batching::{Batch, HeldShare};
use crate::engine::command::Headers;
use crate::engine::requests::Requests;

/// The properties that identify an item where its position does not.
type Mark = (Action, u32);

/// The status of an item whose document did not exist before.
const CREATED: u16 = 201;

/// Assigns items to the operations that action, index and id identify with certainty, or their position if nothing
/// shows another order.
pub fn read(requests: &Requests, orders_items: bool, batch: &Batch, headers: Headers, answer: Answer) -> Misplaced {
    let found = match is_in_order(requests, orders_items, batch, &answer.items) {
        true => in_order(batch, &answer),
        false => by_mark(requests, batch, &answer),
    };
    Misplaced { found, names: names(requests, batch, &answer), headers, answer }
}

/// Returns the number of the item at its position for each operation; `None` if that says nothing.
fn in_order(batch: &Batch, answer: &Answer) -> Vec<Option<u32>> {
    let is_certain = |item: &AnswerItem| !(batch.lost && item.is_uncertain());
    (0..).zip(&answer.items).map(|(number, item)| is_certain(item).then_some(number)).collect()
}

/// Returns the number of its item for each operation of a batch; `None` if that is uncertain.
fn by_mark(requests: &Requests, batch: &Batch, answer: &Answer) -> Vec<Option<u32>> {
    let sent = only_ones(requests.operations(batch).map(|(_, operation)| mark_of_operation(operation)));
    let came = only_ones(answer.items.iter().map(|item| Some((item.action, item.id_hash?))));
    let any_id: BTreeSet<Action> = requests.operations(batch).filter_map(|(_, operation)| any_id(operation)).collect();
    let operations = requests.operations(batch).enumerate();
    operations
        .map(|(number, (held, operation))| {
            let mark = mark_of_operation(operation).filter(|(action, _)| !any_id.contains(action))?;
            let item = came.get(&mark).copied().flatten().filter(|_| sent.get(&mark) == Some(&Some(number)))?;
            let index = answer.index(answer.items.get(item)?)?;
            let is_certain = !(batch.lost && answer.items.get(item)?.is_uncertain());
            (is_certain && requests.of(held)?.writes_to(operation, &index)).then_some(item as u32)
        })
        .collect()
}

/// Returns whether the items are in order, though some have other ids than their operations. A pipeline that sets ids
/// may be newer than the last poll.
///
/// An item with the id of an operation at another position would show another order. Without such an item, some releases
/// always keep the order. The others do unless a pipeline drops or fails a document, and then one item is not a success,
/// or comes without a new document.
fn is_in_order(requests: &Requests, orders_items: bool, batch: &Batch, items: &[AnswerItem]) -> bool {
    let sent: BTreeSet<Mark> =
        requests.operations(batch).filter_map(|(_, operation)| mark_of_operation(operation)).collect();
    let is_in_place = |(item, (_, operation)): (&AnswerItem, (&HeldShare, &Operation))| {
        let has_its_id = item.id_hash.is_some() && item.id_hash == operation.placement.id_hash;
        let is_elsewhere = || item.id_hash.is_some_and(|id| sent.contains(&(item.action, id)));
        let may_be_its_own = || item.id_hash.is_some() && (orders_items || item.status == CREATED);
        item.action == operation.action && (has_its_id || !is_elsewhere() && may_be_its_own())
    };
    items.len() as u64 == batch.operations() && items.iter().zip(requests.operations(batch)).all(is_in_place)
}

/// Returns the names in all operations whose position has no item or the item of another operation.
fn names(requests: &Requests, batch: &Batch, answer: &Answer) -> Vec<String> {
    let is_complete = answer.items.len() as u64 == batch.operations();
    let items = answer.items.iter().map(Some).chain(std::iter::repeat(None));
    let mut names = BTreeSet::new();
    for ((held, operation), item) in requests.operations(batch).zip(items) {
        let fits = is_complete && item.is_some_and(|item| is_for(item, operation));
        if let (false, Some(request)) = (fits, requests.of(held)) {
            request.read_line(operation, |line| {
                let name = line.index.as_deref().unwrap_or_default();
                if !names.contains(name) {
                    names.insert(name.to_owned());
                }
            });
        }
    }
    names.into_iter().collect()
}

/// Returns whether an item matches an operation by action and id.
pub fn is_for(item: &AnswerItem, operation: &Operation) -> bool {
    let Placement { id_hash, under_pipeline, .. } = operation.placement;
    // A pipeline may have changed since the last poll. The release returns these items in order.
    let same_id = under_pipeline || id_hash.is_none_or(|hash| item.id_hash == Some(hash));
    item.action == operation.action && same_id
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
