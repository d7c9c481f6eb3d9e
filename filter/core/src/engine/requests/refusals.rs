use hashbrown::HashMap;

/// The writers of single documents that clusters refuse often, for example because they create documents that exist.
///
/// A refused document is sent twice: in a batch, and by itself, so that its client gets the cluster's own refusal. If more
/// than a third of a writer's documents are refused, its next requests pass through, and then one is tried again.
#[derive(Debug, Default)]
pub struct Refusals {
    /// How far each writer's refusals exceed its successes.
    writers: HashMap<u64, u8>,
}

/// The number of writers that are remembered. Forgetting them costs each a few refusals.
const MAX_WRITERS: usize = 1024;

/// By how much a refusal counts more than a success.
const REFUSAL: u8 = 2;

/// The number from which requests pass through: 16 refusals in a row.
const OFTEN: u8 = 32;

/// How many requests then pass through until one is tried again.
const PASSED: u8 = 100;

impl Refusals {
    /// Records the outcome of a single document.
    pub fn record(&mut self, writer: u64, is_refused: bool) {
        if !is_refused {
            // Most writers are never refused.
            if let Some(count) = self.writers.get_mut(&writer) {
                *count = count.saturating_sub(1);
            }
            return;
        }
        if self.writers.len() >= MAX_WRITERS && !self.writers.contains_key(&writer) {
            self.writers.clear();
        }
        let count = self.writers.entry(writer).or_default();
        *count = count.saturating_add(REFUSAL);
        if *count >= OFTEN {
            *count = OFTEN.saturating_add(PASSED);
        }
    }

    /// Returns whether the next request of a writer passes through.
    pub fn are_often(&mut self, writer: u64) -> bool {
        let Some(count) = self.writers.get_mut(&writer).filter(|count| **count >= OFTEN) else { return false };
        *count = count.saturating_sub(1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of a writer's requests are sent in batches if every n-th of them is refused.
    fn merged(refusals: &mut Refusals, requests: usize, nth: usize) -> usize {
        let mut merged = 0;
        for request in 0..requests {
            if !refusals.are_often(7) {
                merged += 1;
                refusals.record(7, request % nth == 0);
            }
        }
        merged
    }

    #[test]
    fn a_writer_that_is_often_refused_passes_through_until_it_pays_again() {
        let mut refusals = Refusals::default();
        assert_eq!(merged(&mut refusals, 10_000, 4), 10_000);
        let always = merged(&mut refusals, 10_000, 1);
        assert!(always < 130, "{always}");
        assert!(merged(&mut refusals, 10_000, usize::MAX) > 9_890);
        assert_eq!(merged(&mut refusals, 1000, 5), 1000);
    }

    /// Otherwise clients with many names could make the refused documents of another one cost twice again.
    #[test]
    fn others_cost_a_refused_writer_its_place_once_for_each_thousand_of_them() {
        const OTHERS: usize = 100 * MAX_WRITERS;
        let mut refusals = Refusals::default();
        let mut twice = 0;
        for other in 0..OTHERS {
            refusals.record(1_000 + other as u64, true);
            if !refusals.are_often(7) {
                refusals.record(7, true);
                twice += 1;
            }
        }
        let (forgotten, tried) = (16 * (OTHERS / MAX_WRITERS + 1), OTHERS / usize::from(PASSED));
        assert!(twice <= forgotten + tried, "{twice} of {OTHERS}");
    }

    #[test]
    fn the_number_of_writers_is_bounded() {
        let mut refusals = Refusals::default();
        for writer in 0..10_000 {
            refusals.record(writer, true);
            refusals.record(writer + 1_000_000, false);
            assert!(refusals.writers.len() <= MAX_WRITERS);
        }
    }
}
