use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::invariant::Count;

/// The account of the memory that requests and answers use, in bytes.
///
/// It counts the bytes in memory ([`Charge`]) and the room for temporary copies ([`Scratch`]): a batch while it is
/// handed out, and a reply while it is assembled. Only one such copy exists at any time, so only the largest counts.
#[derive(Debug, Clone, Default)]
pub struct Memory(Rc<Account>);

#[derive(Debug, Default)]
struct Account {
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
