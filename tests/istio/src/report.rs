use std::env;
use std::fmt::{self, Display};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Result, ensure};

/// A table of tests with their total duration. Each row has the manifests, their delivery, the evidence of their
/// traffic and the duration. Tests may run side by side.
#[derive(Debug)]
pub struct Report {
    started: Instant,
    rows: Mutex<Vec<[String; 4]>>,
    failures: Mutex<Vec<String>>,
    /// The text that a row's first two cells must contain; other rows are skipped.
    wanted: String,
}

impl Report {
    /// Creates a report of all rows, or of those that contain the text of the environment variable ROWS.
    pub fn wanted() -> Self {
        let wanted = env::var("ROWS").unwrap_or_default();
        Self { started: Instant::now(), rows: Mutex::default(), failures: Mutex::default(), wanted }
    }

    pub fn elapsed(&self) -> String {
        seconds(self.started)
    }

    /// Runs a test and adds its row.
    pub async fn add(&self, manifests: &str, delivery: &str, test: impl Future<Output = Result<String>>) {
        if !format!("{manifests}, {delivery}").contains(&self.wanted) {
            return;
        }
        let start = Instant::now();
        let proven = test.await.unwrap_or_else(|error| {
            let failure = format!("{manifests}, {delivery}: {error:#}");
            println!("{failure}");
            self.failures.lock().unwrap().push(failure);
            "**failed**".to_owned()
        });
        let took = seconds(start);
        println!("{manifests}, {delivery}: {proven} ({took})");
        self.rows.lock().unwrap().push([manifests.to_owned(), delivery.to_owned(), proven, took]);
    }

    /// Returns an error if any row failed.
    pub fn result(&self) -> Result<()> {
        let failures = self.failures.lock().unwrap();
        ensure!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
        Ok(())
    }
}

impl Display for Report {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "| manifests | delivery | evidence | duration |\n|---|---|---|--:|")?;
        self.rows.lock().unwrap().iter().try_for_each(|cells| writeln!(to, "| {} |", cells.join(" | ")))?;
        write!(to, "\n{}", self.elapsed())
    }
}

fn seconds(since: Instant) -> String {
    format!("{:.1} s", since.elapsed().as_secs_f64())
}
