//! The outcomes of a writer's requests, as counted by the filter and as recorded in `outcomes.txt`.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::PathBuf;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::{Distribution, Tools};

use crate::RELEASES;
use crate::writer::Writer;

/// The filter's counters, or their growth.
#[derive(Debug, Default, Clone)]
pub struct Counted {
    /// The number of requests that were split, or merged whole.
    pub merged: u64,
    /// The number of requests that passed through, by reason.
    pub passed: BTreeMap<String, u64>,
    /// The number of operations in batches, by upstream.
    pub operations: BTreeMap<String, u64>,
}

/// The upstream of operations that are merged without a known primary.
const COORDINATOR: &str = "es";

impl Counted {
    /// Returns the growth since earlier values.
    pub fn since(&self, earlier: &Self) -> Self {
        let growth = |now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>| {
            let growth = now.iter().map(|(name, count)| (name.clone(), count - before.get(name).unwrap_or(&0)));
            growth.filter(|(_, count)| *count > 0).collect()
        };
        Self {
            merged: self.merged - earlier.merged,
            passed: growth(&self.passed, &earlier.passed),
            operations: growth(&self.operations, &earlier.operations),
        }
    }

    /// Returns whether every request was split.
    pub fn is_all_split(&self) -> bool {
        self.passed.is_empty() && !self.operations.contains_key(COORDINATOR)
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.merged + self.passed.values().sum::<u64>()
    }
}

/// The percentage of requests by outcome: `split`, `merged`, or the reason for which they passed through. An operation
/// for the coordinator counts as merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome(BTreeMap<String, u64>);

impl From<&Counted> for Outcome {
    fn from(counted: &Counted) -> Self {
        let all = counted.requests().max(1) as f64;
        let operations = counted.operations.values().sum::<u64>().max(1) as f64;
        let coordinated = counted.operations.get(COORDINATOR).copied().unwrap_or_default() as f64 / operations;
        let merged = counted.merged as f64 / all;
        let mut shares = BTreeMap::from([
            ("merged".to_owned(), merged * coordinated),
            ("split".to_owned(), merged * (1.0 - coordinated)),
        ]);
        for (reason, count) in &counted.passed {
            shares.insert(format!("`{reason}`"), *count as f64 / all);
        }
        let percent = shares.into_iter().map(|(name, share)| (name, (share * 100.0).round() as u64));
        Self(percent.filter(|(_, percent)| *percent > 0).collect())
    }
}

impl Display for Outcome {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shares: Vec<_> = self.0.iter().collect();
        shares.sort_by_key(|(_, percent)| std::cmp::Reverse(**percent));
        match shares.as_slice() {
            [(name, _)] => write!(to, "{name}"),
            shares => {
                let texts: Vec<_> = shares.iter().map(|(name, percent)| format!("{percent} % {name}")).collect();
                write!(to, "{}", texts.join(", "))
            }
        }
    }
}

impl Outcome {
    fn parse(text: &str) -> Result<Self> {
        let share = |part: &str| match part.split_once(" % ") {
            Some((percent, name)) => Ok((name.to_owned(), percent.parse().with_context(|| text.to_owned())?)),
            None => Ok((part.to_owned(), 100)),
        };
        text.split(", ").map(share).collect::<Result<_>>().map(Self)
    }

    /// Returns whether it is the other outcome, with shares that differ at most by the timing of a program.
    fn is_like(&self, other: &Self) -> bool {
        let close = |(name, percent): (&String, &u64)| other.0.get(name).is_some_and(|it| it.abs_diff(*percent) <= 15);
        self.0.len() == other.0.len() && self.0.iter().all(close)
    }
}

/// The outcomes of writers on releases, by writer and configuration.
#[derive(Debug, Default)]
pub struct Outcomes(BTreeMap<(String, &'static str), Outcome>);

fn path() -> Result<PathBuf> {
    Ok(Tools::find()?.root.join("tests/e2e/tests/writers/outcomes.txt"))
}

impl Outcomes {
    /// Reads the recorded outcomes.
    pub fn read() -> Result<Self> {
        let text = std::fs::read_to_string(path()?)?;
        let mut found = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (title, rest) = line
                .rsplit_once(" | ")
                .and_then(|(head, last)| {
                    let (title, release) = head.rsplit_once(" | ")?;
                    Some((title.to_owned(), (release, last)))
                })
                .with_context(|| line.to_owned())?;
            let release: Distribution = rest.0.parse()?;
            found.0.insert((title, release.name()), Outcome::parse(rest.1)?);
        }
        Ok(found)
    }

    /// Adds an outcome.
    pub fn add(&mut self, writer: &Writer, release: Distribution, outcome: Outcome) {
        self.0.insert((writer.title(), release.name()), outcome);
    }

    /// Returns the differences between these outcomes and the recorded ones.
    pub fn differences(&self, recorded: &Self) -> Vec<String> {
        let difference = |((title, release), found): (&(String, &'static str), &Outcome)| {
            let recorded = recorded.0.get(&(title.clone(), *release));
            let is_like = recorded.is_some_and(|recorded| found.is_like(recorded));
            let was = recorded.map_or_else(|| "none".to_owned(), ToString::to_string);
            (!is_like).then(|| format!("{release}, {title}: {found}, recorded {was}; RENEW=1 records it"))
        };
        self.0.iter().filter_map(difference).collect()
    }

    /// Returns the recorded outcomes, with these new ones, of these writers only.
    pub fn renewed(mut self, found: &Self, writers: &[Writer]) -> Renewed {
        self.0.extend(found.0.iter().map(|(key, outcome)| (key.clone(), outcome.clone())));
        let mut lines = String::new();
        for writer in writers {
            for release in RELEASES.iter().filter(|release| writer.on.contains(release)) {
                if let Some(outcome) = self.0.get(&(writer.title(), release.name())) {
                    lines += &format!("{} | {} | {outcome}\n", writer.title(), release.name());
                }
            }
        }
        Renewed(lines)
    }
}

/// The new lines of the file.
#[derive(Debug)]
pub struct Renewed(String);

impl Renewed {
    /// Writes the file.
    pub fn write(&self) -> Result<()> {
        let head = "# The outcomes of each writer's requests: writer, configuration, release, outcome. Made by\n\
                    # `RENEW=1 make test-writers`; the README has it as a table.\n";
        Ok(std::fs::write(path()?, format!("{head}{}", self.0))?)
    }
}
