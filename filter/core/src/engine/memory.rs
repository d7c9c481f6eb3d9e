use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::engine::pass_through::PassThrough;
use crate::invariant::Count;

/// The account of the memory that requests and answers use, in bytes.
///
/// It counts the bytes in memory ([`Charge`]) and the room for temporary copies ([`Scratch`]): a batch while it is
/// handed out, and a reply while it is assembled. Only one such copy exists at any time, so only the largest counts. All
/// of it fits into a limit: a step that needs more asks for [room](Self::has_room) first.
#[derive(Debug, Clone, Default)]
pub struct Memory(Rc<Account>);

#[derive(Debug, Default)]
struct Account {
    limit: Cell<u64>,
    used: Cell<u64>,
    peak: Cell<u64>,
    /// The peak since the last `take_high`.
    high: Cell<u64>,
    /// The number of requests that need a copy of each size.
    scratch: RefCell<BTreeMap<u64, usize>>,
}

/// The bytes charged for one object. Dropping it returns them.
#[derive(Debug)]
pub struct Charge {
    memory: Memory,
    bytes: u64,
}

/// The largest copy that one request needs. Dropping it returns the bytes.
#[derive(Debug)]
pub struct Scratch {
    memory: Memory,
    /// A multiple of [`SCRATCH_STEP`]; zero for smaller copies.
    bytes: u64,
}

/// The granularity of copy sizes. Sizes are rounded down, so the smallest copies are not counted: most requests cost
/// the account nothing, and the list has at most `limits.memory` divided by this entries.
const SCRATCH_STEP: u64 = 64 << 10;

impl Memory {
    /// Creates an account without charges.
    pub fn new(limit: u64) -> Self {
        let memory = Self::default();
        memory.set_limit(limit);
        memory
    }

    /// Sets the limit, in bytes. What is charged may exceed a new limit for a while.
    pub fn set_limit(&self, bytes: u64) {
        self.0.limit.set(bytes);
    }

    /// Returns the bytes that are left for further charges.
    pub fn free(&self) -> u64 {
        self.0.limit.get().saturating_sub(self.used()).saturating_sub(self.scratch())
    }

    /// Returns whether there is room for this many bytes more, once `returned` bytes of those in use are returned.
    pub fn has_room(&self, more: u64, returned: u64) -> bool {
        let used = self.used().minus(returned, "what is returned was charged");
        used.saturating_add(self.scratch()).saturating_add(more) <= self.0.limit.get()
    }

    /// Returns whether there is room for this many bytes more that are gone before the next copy is made, so that they may
    /// take the room for copies.
    pub fn has_room_meanwhile(&self, more: u64) -> bool {
        more == 0 || self.used().saturating_add(more) <= self.0.limit.get()
    }

    /// Returns the room for more of a request, of whose body `of_request` more bytes are allowed.
    pub fn room(&self, of_request: u64) -> Room {
        Room { of_request, of_memory: self.left(), scratch: self.scratch() }
    }

    /// Returns the bytes that are not in use.
    pub fn left(&self) -> u64 {
        self.0.limit.get().saturating_sub(self.used())
    }

    /// Returns the bytes in use, without scratch.
    pub fn used(&self) -> u64 {
        self.0.used.get()
    }

    /// Returns the peak of the bytes in use.
    pub fn peak(&self) -> u64 {
        self.0.peak.get()
    }

    /// Returns the peak since the last call.
    #[cfg(any(test, feature = "audit"))]
    pub fn take_high(&self) -> u64 {
        self.0.high.replace(self.used())
    }

    /// Returns the bytes of the largest copy that any request needs.
    pub fn scratch(&self) -> u64 {
        self.0.scratch.borrow().last_key_value().map_or(0, |(bytes, _)| *bytes)
    }

    /// Charges this many bytes.
    pub fn charge(&self, bytes: u64) -> Charge {
        let mut charge = Charge { memory: self.clone(), bytes: 0 };
        charge.set(bytes);
        charge
    }
}

impl Charge {
    /// Sets its size.
    pub fn set(&mut self, bytes: u64) {
        let Account { used, peak, high, .. } = &*self.memory.0;
        used.set(used.get().minus(self.bytes, "what is returned was charged").saturating_add(bytes));
        peak.set(peak.get().max(used.get()));
        high.set(high.get().max(used.get()));
        self.bytes = bytes;
    }

    /// Sets its size to zero.
    pub fn clear(&mut self) {
        if self.bytes > 0 {
            self.set(0);
        }
    }

    /// Returns its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Creates a scratch of the same account, with no bytes yet.
    pub fn scratch(&self) -> Scratch {
        Scratch { memory: self.memory.clone(), bytes: 0 }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Scratch {
    /// Sets its size.
    pub fn set(&mut self, bytes: u64) {
        let bytes = bytes / SCRATCH_STEP * SCRATCH_STEP;
        if bytes == self.bytes {
            return;
        }
        let mut sizes = self.memory.0.scratch.borrow_mut();
        if let Some(count) = sizes.get_mut(&self.bytes) {
            *count = count.minus(1, "a size in the list is used");
            if *count == 0 {
                sizes.remove(&self.bytes);
            }
        }
        if bytes > 0 {
            let count = sizes.entry(bytes).or_default();
            *count = count.plus(1, "memory bounds the requests");
        }
        self.bytes = bytes;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The room that is left for a request, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// The room up to `limits.max_request`.
    of_request: u64,
    /// The room up to `limits.memory`.
    of_memory: u64,
    /// The part of `of_memory` that other requests need for temporary copies. This request may use it for its own
    /// copies.
    scratch: u64,
}

impl Room {
    /// Returns how many more bytes of its body may come.
    pub fn bytes(self) -> u64 {
        self.of_request.min(self.free())
    }

    /// Returns the reason for passing through a request that exceeds the room.
    pub fn beyond(self) -> PassThrough {
        match self.of_request <= self.free() {
            true => PassThrough::TooLarge,
            false => PassThrough::Memory,
        }
    }

    /// Returns the bytes that are free.
    pub fn free(self) -> u64 {
        self.of_memory.saturating_sub(self.scratch)
    }

    /// Returns whether a request still fits that has grown by `grown` bytes and needs `scratch` bytes of scratch.
    pub fn fits(self, grown: u64, scratch: u64) -> bool {
        grown.saturating_add(scratch.max(self.scratch)) <= self.of_memory
    }

    /// Returns the room that is left after `bytes` of the body, which use `memory`.
    pub fn less(self, bytes: u64, memory: u64) -> Self {
        Self {
            of_request: self.of_request.saturating_sub(bytes),
            of_memory: self.of_memory.saturating_sub(memory.max(bytes)),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_bytes_in_use_and_their_peak() {
        let memory = Memory::default();
        let mut first = memory.charge(10);
        let second = memory.charge(5);
        first.set(3);
        assert_eq!(memory.used(), 8);
        drop(first);
        assert_eq!(memory.used(), 5);
        drop(second);
        assert_eq!((memory.used(), memory.peak()), (0, 15));
    }

    #[test]
    fn only_the_largest_copy_counts() {
        let charge = Memory::default().charge(0);
        let memory = charge.memory.clone();
        let [mut first, mut second, mut third] = [(); 3].map(|()| charge.scratch());
        first.set(SCRATCH_STEP - 1);
        assert_eq!(memory.scratch(), 0);
        first.set(3 * SCRATCH_STEP + 1);
        second.set(3 * SCRATCH_STEP);
        third.set(SCRATCH_STEP);
        assert_eq!(memory.scratch(), 3 * SCRATCH_STEP);
        drop(first);
        assert_eq!(memory.scratch(), 3 * SCRATCH_STEP);
        second.set(0);
        assert_eq!(memory.scratch(), SCRATCH_STEP);
        drop(third);
        assert_eq!((memory.scratch(), memory.0.scratch.borrow().len()), (0, 0));
    }
}
