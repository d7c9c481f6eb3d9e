use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::super::SharedData;

/// The shared data of a test, with the rules of a proxy: a value's version increases with each write, and an absent
/// value may be written with any version.
#[derive(Clone, Default)]
pub struct Memory(Rc<RefCell<Inner>>);

/// A function that corrupts a value.
pub type Corruption = fn(&[u8]) -> Vec<u8>;

type Event = Box<dyn FnOnce()>;

#[derive(Default)]
struct Inner {
    values: BTreeMap<String, (Vec<u8>, u32)>,
    next_version: u32,
    /// The event that runs after the next read of a key with this suffix.
    after_read: Option<(&'static str, Event)>,
    /// The function that corrupts each written part.
    corrupt: Option<Corruption>,
    /// Whether writes that depend on a version fail.
    refuses: bool,
}

impl Memory {
    /// Runs an event elsewhere after the next read of a key with this suffix.
    pub fn after_read(&self, end: &'static str, happens: impl FnOnce() + 'static) {
        self.0.borrow_mut().after_read = Some((end, Box::new(happens)));
    }

    /// Corrupts each part that is written from now on.
    pub fn corrupt(&self, corrupt: Corruption) {
        self.0.borrow_mut().corrupt = Some(corrupt);
    }

    /// Sets whether writes that depend on a version fail from now on.
    pub fn refuse(&self, refuses: bool) {
        self.0.borrow_mut().refuses = refuses;
    }

    pub fn keys(&self) -> Vec<String> {
        self.0.borrow().values.keys().cloned().collect()
    }

    pub fn get(&self, key: &str) -> Vec<u8> {
        self.0.borrow().values[key].0.clone()
    }

    pub fn put(&self, key: &str, value: &[u8]) {
        self.write(key, value, None);
    }

    pub fn lose(&self, key: &str) {
        self.0.borrow_mut().values.remove(key);
    }
}

impl SharedData for Memory {
    fn read(&self, key: &str) -> (Option<Vec<u8>>, Option<u32>) {
        let found = self.0.borrow().values.get(key).cloned();
        let happens = self.0.borrow_mut().after_read.take_if(|(end, _)| key.ends_with(*end));
        if let Some((_, happens)) = happens {
            happens();
        }
        found.map(|(value, version)| (Some(value), Some(version))).unwrap_or_default()
    }

    fn write(&self, key: &str, value: &[u8], version: Option<u32>) -> bool {
        let mut inner = self.0.borrow_mut();
        let found = inner.values.get(key).map(|(_, version)| *version);
        if version.is_some() && (inner.refuses || found.is_some() && version != found) {
            return false;
        }
        let value = match inner.corrupt.filter(|_| !key.ends_with(".lease")) {
            Some(corrupt) => corrupt(value),
            None => value.to_vec(),
        };
        inner.next_version += 1;
        let version = inner.next_version;
        inner.values.insert(key.to_owned(), (value, version));
        true
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_list().entries(self.keys()).finish()
    }
}
