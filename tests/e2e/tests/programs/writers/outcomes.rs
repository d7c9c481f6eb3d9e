//! The outcomes of a writer's requests, as counted by the filter and as recorded in `outcomes.txt`.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::PathBuf;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::{Distribution, Tools};

use super::RELEASES;
use super::writer::Writer;
use crate::counts::Counts;

/// The upstream of operations that are merged without a known primary.
const COORDINATOR: &str = "es";

impl Counts {
    /// Returns whether every request was split.
    pub fn is_all_split(&self) -> bool {
        self.passed.is_empty() && !self.batch_operations.contains_key(COORDINATOR)
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

impl From<&Counts> for Outcome {
    fn from(counted: &Counts) -> Self {
        let all = counted.requests().max(1) as f64;
        let operations = counted.batch_operations.values().sum::<u64>().max(1) as f64;
        let coordinated = counted.batch_operations.get(COORDINATOR).copied().unwrap_or_default() as f64 / operations;
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
    Ok(Tools::find()?.root.join("tests/e2e/tests/programs/writers/outcomes.txt"))
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

    /// Writes these outcomes to the file, and keeps those of other writers and releases that it has.
    pub fn record(&self, writers: &[Writer]) -> Result<()> {
        let recorded = Self::read()?;
        let mut text = "# The outcomes of each writer's requests: writer, configuration, release, outcome. Made by\n\
                        # `RENEW=1 make test-writers`; the README has it as a table.\n"
            .to_owned();
        for writer in writers {
            for release in RELEASES.iter().filter(|release| writer.on.contains(release)) {
                let key = (writer.title(), release.name());
                if let Some(outcome) = self.0.get(&key).or_else(|| recorded.0.get(&key)) {
                    text += &format!("{} | {} | {outcome}\n", key.0, key.1);
                }
            }
        }
        Ok(std::fs::write(path()?, text)?)
    }
}
