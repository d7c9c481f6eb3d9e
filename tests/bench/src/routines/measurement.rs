use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Load, Make, ROUTINES, Reading, Routine};

/// The duration of a routine's run. Its text is a log line that [`find`](Self::find) parses.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measurement {
    pub routine: String,
    pub load: Load,
    /// The bytes that a run processes: see [`Routine::bytes`].
    pub bytes: usize,
    /// The median of the runs, in nanoseconds.
    pub median: u64,
    /// The fastest run, in nanoseconds.
    pub fastest: u64,
}

/// The marker before a measurement in a log.
const MARK: &str = "measured ";

/// The minimum time of each measurement, including the preparation of its runs.
const TIME: Duration = Duration::from_millis(500);

/// The minimum number of runs.
const RUNS: usize = 5;

/// Routines whose time alone is of interest: reading the smallest and the largest chunks that Envoy passes in.
const OTHERS: &[(&str, Make)] = &[
    ("reading chunks of 16 KiB", |load| Box::new(Reading::new(load, 16 << 10))),
    ("reading chunks of 64 KiB", |load| Box::new(Reading::new(load, 64 << 10))),
];

impl Measurement {
    /// Returns the number of all measurements.
    pub fn count() -> usize {
        (ROUTINES.len() + OTHERS.len()) * Load::all().count()
    }

    /// Takes the measurement with this number.
    pub fn take(number: usize) -> Option<Self> {
        let routines = ROUTINES.iter().chain(OTHERS);
        let all = routines.flat_map(|routine| Load::all().map(move |load| (routine, load)));
        let ((name, make), load) = all.into_iter().nth(number)?;
        let mut routine = make(load);
        let runs = runs(routine.as_mut());
        let (median, fastest) = (runs[runs.len() / 2], runs[0]);
        Some(Self { routine: (*name).to_owned(), load, bytes: routine.bytes(), median, fastest })
    }

    /// Parses the measurement in a line of a log.
    pub fn find(line: &str) -> Option<Self> {
        serde_json::from_str(line.split_once(MARK)?.1).ok()
    }

    /// Returns the nanoseconds of an operation if a run takes `run` nanoseconds.
    pub fn per_operation(&self, run: u64) -> f64 {
        run as f64 / self.load.operations() as f64
    }

    /// Returns the throughput in MB/s if a run takes `run` nanoseconds.
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

/// Returns the durations of the runs in nanoseconds, the fastest first.
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

/// Returns the cost of reading the clock.
fn clock() -> Duration {
    (0..1_000).map(|_| Instant::now().elapsed()).min().unwrap_or_default()
}
