use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Names that operations have asked for and that the table does not know: the latest of them.
///
/// Clients choose the names. One that is asked for again counts as new, so that many others that nobody asks for again
/// do not push it out for long.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Each name with its age: the greater, the later it was asked for.
    ages: BTreeMap<Rc<str>, u64>,
    by_age: BTreeMap<u64, Rc<str>>,
    next: u64,
}

/// The most names that are remembered.
const MOST: usize = 1000;

/// The most bytes of one: no cluster has an index or an alias with a longer name.
const LONGEST: usize = 255;

impl Wanted {
    /// Remembers a name, in place of the oldest if there are many.
    pub fn insert(&mut self, name: &str) {
        if name.len() > LONGEST {
            return;
        }
        let name: Rc<str> = name.into();
        self.next = self.next.saturating_add(1);
        if let Some(before) = self.ages.insert(Rc::clone(&name), self.next) {
            self.by_age.remove(&before);
        }
        self.by_age.insert(self.next, name);
        if self.by_age.len() > MOST
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.ages.remove(&oldest);
        }
        debug_assert_eq!(self.ages.len(), self.by_age.len(), "each name has one age");
    }

    /// Forgets all names, and returns them.
    pub fn take(&mut self) -> BTreeSet<Rc<str>> {
        self.by_age.clear();
        std::mem::take(&mut self.ages).into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_names_are_remembered() {
        let mut wanted = Wanted::default();
        (0..10 * MOST).for_each(|number| {
            wanted.insert("daily");
            wanted.insert(&format!("guess-{number}"));
        });
        let names = wanted.take();
        assert_eq!(names.len(), MOST);
        assert!(names.contains("daily") && names.contains("guess-9999") && !names.contains("guess-0"));
        assert!(wanted.take().is_empty());
    }

    #[test]
    fn a_name_that_no_index_can_have_is_not_remembered() {
        let mut wanted = Wanted::default();
        wanted.insert(&"n".repeat(LONGEST + 1));
        assert!(wanted.take().is_empty());
        wanted.insert(&"n".repeat(LONGEST));
        assert_eq!(wanted.take().len(), 1);
    }
}
