use std::collections::BTreeMap;
use std::fmt;

use super::grammar::Body;
use super::judge::Verdict;

/// The number of reasons and oddities to print.
const SHOWN: usize = 40;

/// How many bodies the filter split, and how many it passed through although every release accepts them.
#[derive(Debug, Default)]
pub struct Tally {
    bodies: u64,
    refused: u64,
    split: u64,
    /// Bodies that all releases accept and the filter passes through, by its reason and by their oddities.
    passed: BTreeMap<(&'static str, String), u64>,
}

impl Tally {
    /// Adds a body with the verdicts of all releases.
    pub fn add<'a>(&mut self, body: &Body, verdicts: impl Iterator<Item = &'a Verdict> + Clone) {
        self.bodies += 1;
        if verdicts.clone().any(|verdict| *verdict == Verdict::Refused) {
            self.refused += 1;
        } else if let Some(Verdict::PassedThrough(reason)) =
            verdicts.clone().find(|verdict| matches!(verdict, Verdict::PassedThrough(_)))
        {
            let oddities = match body.oddities.as_slice() {
                [] => "nothing",
                [only] => only,
                _ => "several things",
            };
            *self.passed.entry((reason, oddities.to_owned())).or_default() += 1;
        } else {
            self.split += 1;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bodies, refused, split, passed } = self;
        let needless = passed.values().sum::<u64>();
        writeln!(to, "{bodies} bodies: {refused} refused by a release, {split} split")?;
        writeln!(to, "passed through without need: {needless}, mostly by this reason, with this oddity in the body:")?;
        let mut passed: Vec<_> = passed.iter().collect();
        passed.sort_by_key(|(_, bodies)| std::cmp::Reverse(**bodies));
        for ((reason, oddity), bodies) in passed.into_iter().take(SHOWN) {
            writeln!(to, "{bodies:8}  {reason:14}  {oddity}")?;
        }
        Ok(())
    }
}
