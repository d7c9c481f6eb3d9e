use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use bulk_reshuffle_bench::routines::Load;

/// The instructions per operation, by routine and load.
#[derive(Debug, Default)]
pub struct Limits(BTreeMap<(String, String), f64>);

/// The file that holds the limits.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions/limits.txt");

/// The fraction by which a count may exceed its limit. Another compiler or C library also changes counts.
const MARGIN: f64 = 0.05;

const HEAD: &str = "\
# Instructions per operation, counted by callgrind on x86-64 with AVX2. `make bench-instructions` fails if a count
# exceeds its limit by more than 5 %. If a change is worth that, or if it saves instructions, rewrite this file:
#
#   make bench-instructions RENEW=1
#
";

/// The prefix of the line that names the compiler of the counted build.
const COMPILER: &str = "# counted with ";

impl Limits {
    /// Reads the limits from the file.
    pub fn read() -> Self {
        let text = text();
        let limits = text.lines().filter_map(|line| {
            let mut columns = line.split('|').map(str::trim);
            let (routine, load) = (columns.next()?.to_owned(), columns.next()?.to_owned());
            Some(((routine, load), columns.next()?.parse().ok()?))
        });
        Self(limits.collect())
    }

    /// Writes these counts to the file as the new limits.
    pub fn write(&self) {
        let lines = self.0.iter().map(|((routine, load), count)| format!("{routine} | {load} | {count:.1}\n"));
        let text = format!("{HEAD}{COMPILER}{}\n{}", compiler(), lines.collect::<String>());
        fs::write(FILE, text).expect("the limits can be written");
    }

    /// Sets the count of one routine and load.
    pub fn insert(&mut self, routine: &str, load: Load, count: f64) {
        self.0.insert((routine.to_owned(), load.to_string()), count);
    }

    /// Prints these counts beside their limits. Returns whether all are within them.
    pub fn compare(&self, limits: &Self) -> bool {
        println!("{:<15} {:<20} {:>22} {:>10}", "routine", "load", "instructions/operation", "limit");
        let mut is_kept = true;
        for ((routine, load), count) in &self.0 {
            let limit = limits.0.get(&(routine.clone(), load.clone())).copied().unwrap_or_default();
            let is_beyond = *count > limit * (1.0 + MARGIN);
            let change = (count / limit - 1.0) * 100.0;
            let verdict = if is_beyond { "too many" } else { "" };
            println!("{routine:<15} {load:<20} {count:>22.1} {limit:>10.1} {change:>+7.1} % {verdict}");
            is_kept &= !is_beyond;
        }
        let (of_limits, own) =
            (text().lines().find_map(|line| Some(line.strip_prefix(COMPILER)?.to_owned())), compiler());
        if !is_kept && of_limits.as_ref() != Some(&own) {
            println!("the limits were counted with {}, this with {own}", of_limits.unwrap_or_default());
        }
        is_kept
    }
}

fn text() -> String {
    fs::read_to_string(FILE).unwrap_or_default()
}

fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output().expect("a compiler");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
