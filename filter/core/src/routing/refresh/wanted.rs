use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What operations used and the table does not know: the latest names, and whether any pipeline was named.
///
/// Clients choose the names. A repeated name counts as new, so that many names that are used only once cannot displace
/// it for long.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// The age of each name. A greater number means a later use.
    ages: BTreeMap<Rc<str>, u64>,
    by_age: BTreeMap<u64, Rc<str>>,
    next: u64,
    /// Whether a request has named a pipeline.
    pub pipelines: bool,
    /// Whether the addresses of the nodes would help, to tell which node has answered a request.
    pub addresses: bool,
    /// Whether no cycle has looked for them since.
    pub are_addresses_new: bool,
}

/// The maximum number of names.
const MAX_NAMES: usize = 1000;

/// The maximum length of a name, in bytes. The names of indices and aliases are never longer.
const MAX_NAME_BYTES: usize = 255;

impl Wanted {
    /// Adds a name, and removes the oldest if there are too many.
    pub fn insert(&mut self, name: &str) {
        if name.len() > MAX_NAME_BYTES {
            return;
        }
        let name: Rc<str> = name.into();
        self.next = self.next.saturating_add(1);
        if let Some(before) = self.ages.insert(Rc::clone(&name), self.next) {
            self.by_age.remove(&before);
        }
        self.by_age.insert(self.next, name);
        if self.by_age.len() > MAX_NAMES
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.ages.remove(&oldest);
        }
        debug_assert_eq!(self.ages.len(), self.by_age.len(), "each name has one age");
    }

    /// Removes and returns all names.
    pub fn take(&mut self) -> BTreeSet<Rc<str>> {
        self.by_age.clear();
        std::mem::take(&mut self.ages).into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_the_latest_names() {
        let mut wanted = Wanted::default();
        (0..10 * MAX_NAMES).for_each(|number| {
            wanted.insert("daily");
            wanted.insert(&format!("guess-{number}"));
        });
        let names = wanted.take();
        assert_eq!(names.len(), MAX_NAMES);
        assert!(names.contains("daily") && names.contains("guess-9999") && !names.contains("guess-0"));
        assert!(wanted.take().is_empty());
    }

    #[test]
    fn ignores_a_name_that_is_too_long_for_an_index() {
        let mut wanted = Wanted::default();
        wanted.insert(&"n".repeat(MAX_NAME_BYTES + 1));
        assert!(wanted.take().is_empty());
        wanted.insert(&"n".repeat(MAX_NAME_BYTES));
        assert_eq!(wanted.take().len(), 1);
    }
}
