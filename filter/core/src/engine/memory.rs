use std::cell::Cell;
use std::rc::Rc;

/// Bytes that requests and answers take, counted as long as they are here.
#[derive(Debug, Clone, Default)]
pub struct Memory(Rc<Account>);

#[derive(Debug, Default)]
struct Account {
    used: Cell<u64>,
    peak: Cell<u64>,
}

/// The bytes of one thing. They are given back when it is dropped.
#[derive(Debug)]
pub struct Charge {
    memory: Memory,
    bytes: u64,
}

impl Memory {
    /// Bytes in all.
    pub fn used(&self) -> u64 {
        self.0.used.get()
    }

    /// The most bytes that there ever were.
    pub fn peak(&self) -> u64 {
        self.0.peak.get()
    }

    /// Counts something of this size.
    pub fn charge(&self, bytes: u64) -> Charge {
        let mut charge = Charge { memory: self.clone(), bytes: 0 };
        charge.set(bytes);
        charge
    }
}

impl Charge {
    /// It has this size now.
    pub fn set(&mut self, bytes: u64) {
        let Account { used, peak } = &*self.memory.0;
        used.set(used.get().saturating_sub(self.bytes).saturating_add(bytes));
        peak.set(peak.get().max(used.get()));
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_here() {
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
}
