use std::fs;
use std::process::Command;

/// The instructions per operation, in the order in which they are counted.
#[derive(Debug, Default)]
pub struct Limits(Vec<Row>);

#[derive(Debug)]
struct Row {
    /// The name of a routine or of a growth series.
    subject: String,
    /// The load of the routine, or the case of the series.
    case: String,
    instructions: f64,
}

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions/limits.txt");

/// The fraction by which a count may exceed its limit. Another compiler or C library also changes counts.
const MARGIN: f64 = 0.05;

const HEAD: &str = "\
# Instructions per operation, counted by callgrind on x86-64 with AVX2. `make bench-instructions` fails if a count
# exceeds its limit by more than 5 %. If a change is worth that, or if it saves instructions, rewrite this file and the
# table in k6/README.md:
#
#   make bench-instructions RENEW=1
#   RENEW=1 cargo test --package bulk-reshuffle-docs --test pages
#
";

/// The prefix of the line that names the compiler of the counted build.
const COMPILER: &str = "# counted with ";

impl Limits {
    pub fn read() -> Self {
        let text = text();
        let rows = text.lines().filter_map(|line| {
            let mut columns = line.split('|').map(str::trim);
            let (subject, case) = (columns.next()?.to_owned(), columns.next()?.to_owned());
            Some(Row { subject, case, instructions: columns.next()?.parse().ok()? })
        });
        Self(rows.collect())
    }

    pub fn write(&self) {
        let line = |row: &Row| format!("{} | {} | {:.1}\n", row.subject, row.case, row.instructions);
        let lines: String = self.0.iter().map(line).collect();
        fs::write(FILE, format!("{HEAD}{COMPILER}{}\n{lines}", compiler())).expect("the limits can be written");
    }

    /// Adds the count of one routine and load, or of one series and case.
    pub fn push(&mut self, subject: &str, case: &str, instructions: f64) {
        self.0.push(Row { subject: subject.to_owned(), case: case.to_owned(), instructions });
    }

    /// Returns the limit of one routine and load, or of one series and case; 0 for a new one.
    fn of(&self, subject: &str, case: &str) -> f64 {
        let found = self.0.iter().find(|row| row.subject == subject && row.case == case);
        found.map_or(0.0, |row| row.instructions)
    }

    /// Prints these counts beside their limits. Returns whether all are within them.
    pub fn compare(&self, limits: &Self) -> bool {
        println!("{:<70} {:<20} {:>22} {:>10}", "subject", "case", "instructions/operation", "limit");
        let mut is_kept = true;
        for Row { subject, case, instructions } in &self.0 {
            let limit = limits.of(subject, case);
            let is_beyond = *instructions > limit * (1.0 + MARGIN);
            let change = (instructions / limit - 1.0) * 100.0;
            let verdict = if is_beyond { "too many" } else { "" };
            println!("{subject:<70} {case:<20} {instructions:>22.1} {limit:>10.1} {change:>+7.1} % {verdict}");
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
