use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bulk_reshuffle::routing::SharedData;

use crate::fault::Fault;
use crate::rng::Rng;

/// The data that the engines share. A value's version increases with each write.
#[derive(Debug, Clone)]
pub struct Memory(Rc<RefCell<Values>>);

#[derive(Debug)]
struct Values {
    by_key: BTreeMap<String, (Vec<u8>, u32)>,
    version: u32,
    /// The percentage of writes that are lost, and of those that are garbled.
    faults: u64,
    rng: Rng,
}

impl Memory {
    pub fn new(faults: u64, rng: Rng) -> Self {
        Self(Rc::new(RefCell::new(Values { by_key: BTreeMap::new(), version: 0, faults, rng })))
    }

    /// Stops losing writes from now on.
    pub fn calm(&self) {
        self.0.borrow_mut().faults = 0;
    }
}

impl SharedData for Memory {
    fn read(&self, key: &str) -> (Option<Vec<u8>>, Option<u32>) {
        let values = self.0.borrow();
        values.by_key.get(key).map(|(value, version)| (Some(value.clone()), Some(*version))).unwrap_or_default()
    }

    fn write(&self, key: &str, value: &[u8], version: Option<u32>) -> bool {
        let mut values = self.0.borrow_mut();
        let found = values.by_key.get(key).map(|(_, version)| *version);
        if version.is_some() && found.is_some() && version != found {
            return false;
        }
        let mut value = value.to_vec();
        let faults = values.faults;
        if values.rng.percent(faults) {
            values.by_key.remove(key);
            return true;
        }
        if values.rng.percent(faults) {
            let at = values.rng.up_to(value.len() as u64) as usize;
            match value.get_mut(at) {
                Some(byte) if values.rng.percent(50) => *byte ^= 0x55,
                _ => value.truncate(at),
            }
        }
        values.version = values.version.wrapping_add(1);
        let version = values.version;
        values.by_key.insert(key.to_owned(), (value, version));
        true
    }
}

/// The shared data as an engine with a fault sees it.
#[derive(Debug)]
pub struct FaultySharedData {
    pub shared: Box<dyn SharedData>,
    pub fault: Fault,
}

impl SharedData for FaultySharedData {
    fn read(&self, key: &str) -> (Option<Vec<u8>>, Option<u32>) {
        match self.fault {
            Fault::TakeNothingOver if !key.ends_with(".lease") => (None, None),
            _ => self.shared.read(key),
        }
    }

    fn write(&self, key: &str, value: &[u8], version: Option<u32>) -> bool {
        match self.fault {
            Fault::DropLeases if key.ends_with(".lease") => true,
            _ => self.shared.write(key, value, version),
        }
    }
}
