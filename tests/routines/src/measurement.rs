use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::{Load, ROUTINES, Routine};

/// How long a run of a routine takes. Its text is a line for a log, of which it can be [found](Self::find) again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measurement {
    /// The routine's name.
    pub routine: String,
    /// What was asked of it.
    pub load: Load,
    /// What a run works through: see [`Routine::bytes`].
    pub bytes: usize,
    /// The median of its runs, in nanoseconds.
    pub median: u64,
    /// The run that was disturbed least, in nanoseconds.
    pub fastest: u64,
}

/// What stands in front of a measurement in a log.
const MARK: &str = "measured ";

/// How long each is measured, together with what makes its runs ready.
const TIME: Duration = Duration::from_millis(500);

/// Runs that are measured at least.
const RUNS: usize = 5;

impl Measurement {
    /// How many there are.
    pub fn count() -> usize {
        ROUTINES.len() * Load::all().count()
    }

    /// Takes the n-th of all measurements.
    pub fn take(number: usize) -> Option<Self> {
        let all = ROUTINES.iter().flat_map(|routine| Load::all().map(move |load| (routine, load)));
        let ((name, make), load) = all.into_iter().nth(number)?;
        let mut routine = make(load);
        let runs = runs(routine.as_mut());
        let (median, fastest) = (runs[runs.len() / 2], runs[0]);
        Some(Self { routine: (*name).to_owned(), load, bytes: routine.bytes(), median, fastest })
    }

    /// The measurement in a line of a log.
    pub fn find(line: &str) -> Option<Self> {
        serde_json::from_str(line.split_once(MARK)?.1).ok()
    }

    /// Nanoseconds of an operation when a run takes this many.
    pub fn per_operation(&self, run: u64) -> f64 {
        run as f64 / self.load.operations() as f64
    }

    /// Millions of bytes in a second when a run takes this many nanoseconds.
    pub fn megabytes(&self, run: u64) -> f64 {
        self.bytes as f64 * 1e3 / run.max(1) as f64
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        write!(formatter, "{MARK}{json}")
    }
}

/// What each run took, in nanoseconds, the fastest first.
fn runs(routine: &mut dyn Routine) -> Vec<u64> {
    let (begin, clock) = (Instant::now(), clock());
    let mut runs = Vec::new();
    while runs.len() < RUNS || begin.elapsed() < TIME {
        routine.prepare();
        let begin = Instant::now();
        routine.run();
        runs.push(begin.elapsed().saturating_sub(clock).as_nanos() as u64);
    }
    runs.sort_unstable();
    runs
}

/// What looking at the clock takes.
fn clock() -> Duration {
    (0..1_000).map(|_| Instant::now().elapsed()).min().unwrap_or_default()
}
