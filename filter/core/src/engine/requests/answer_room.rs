use crate::bulk::{AnswerItem, ERROR_ROOM, ITEM_ROOM};
use crate::invariant::Count;

/// The room for the answer to a request, in bytes.
#[derive(Debug, Default)]
pub struct AnswerRoom {
    /// The number of operations.
    operations: u64,
    /// The longest possible items for them.
    items: u64,
    /// The bytes by which the items that have arrived exceed that.
    longer: u64,
    /// The longest index name in an item.
    longest_name: u64,
    /// The reservation for the items of operations that no node has answered yet.
    reserved: u64,
}

/// Bytes of the record for an item.
const ITEM: u64 = size_of::<AnswerItem>() as u64;

impl AnswerRoom {
    /// Adds room for an item that contains `line` bytes of its action line and an index name of up to `name` bytes.
    #[inline]
    pub fn add(&mut self, line: u64, name: u64) {
        self.items = self.items.saturating_add(ITEM_ROOM.saturating_add(line).saturating_add(name));
        self.longest_name = self.longest_name.max(name);
    }

    /// Reserves the room for the items of all operations, which are this many now.
    pub fn reserve(&mut self, operations: usize) {
        self.operations = operations as u64;
        self.reserved = self.items.saturating_add(self.operations.saturating_mul(ITEM));
    }

    /// Returns the reservation.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Returns the longest possible items for all operations.
    pub fn items(&self) -> u64 {
        self.items.saturating_add(self.longer)
    }

    /// Returns the reservation for this number of operations, each with an equal part.
    pub fn expected(&self, operations: u64) -> u64 {
        let each = self.items / self.operations.max(1);
        operations.saturating_mul(each.saturating_add(ITEM))
    }

    /// Releases the reservation for operations that were answered with items of `bytes` bytes. Returns the released
    /// bytes, and whether the items are longer than expected, so that the reply needs more room.
    pub fn answered(&mut self, operations: u64, bytes: u64) -> (u64, bool) {
        let expected = self.expected(operations);
        let released = expected.min(self.reserved);
        self.reserved = self.reserved.minus(released, "it is at most what is reserved");
        let longer = bytes.saturating_sub(expected);
        self.longer = self.longer.saturating_add(longer);
        (released, longer > 0)
    }

    /// Reserves the room for operations that are sent again.
    pub fn expect_again(&mut self, operations: u64) {
        self.reserved = self.reserved.saturating_add(self.expected(operations));
    }

    /// Returns the longest possible answer to operations of this number and size. Errors may quote a document twice, and
    /// the names.
    pub fn longest_answer(&self, operations: u64, bytes: u64) -> u64 {
        let each = ERROR_ROOM.saturating_add(self.longest_name.saturating_mul(2));
        operations.saturating_mul(each).saturating_add(bytes.saturating_mul(2))
    }
}
