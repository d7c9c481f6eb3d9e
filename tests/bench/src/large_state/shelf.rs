use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use bulk_reshuffle::routing::SharedData;

/// The data that the workers of one machine share. Clones share the same data.
#[derive(Debug, Clone, Default)]
pub struct Shelf(Rc<Contents>);

#[derive(Debug, Default)]
struct Contents {
    values: RefCell<HashMap<String, (Vec<u8>, u32)>>,
    reads: Cell<usize>,
    writes: Cell<usize>,
}

impl Shelf {
    /// Returns how many values were read and written since the last call.
    pub fn take_counts(&self) -> (usize, usize) {
        (self.0.reads.take(), self.0.writes.take())
    }

    /// Returns the size of all values, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.values.borrow().values().map(|(value, _)| value.len()).sum()
    }
}

impl SharedData for Shelf {
    fn read(&self, key: &str) -> (Option<Vec<u8>>, Option<u32>) {
        self.0.reads.set(self.0.reads.get() + 1);
        match self.0.values.borrow().get(key) {
            Some((value, version)) => (Some(value.clone()), Some(*version)),
            None => (None, None),
        }
    }

    fn write(&self, key: &str, value: &[u8], version: Option<u32>) -> bool {
        self.0.writes.set(self.0.writes.get() + 1);
        let mut values = self.0.values.borrow_mut();
        let current = values.get(key).map(|(_, version)| *version);
        let may = version.is_none() || current.is_none() || version == current;
        if may {
            values.insert(key.to_owned(), (value.to_vec(), current.unwrap_or_default().wrapping_add(1)));
        }
        may
    }
}
