use std::env;
use std::fmt::{self, Display};
use std::time::Instant;

use anyhow::{Result, ensure};

/// A table of tests. Each row has the manifests, their delivery, the evidence of their traffic and the duration.
#[derive(Debug)]
pub struct Report {
    rows: Vec<[String; 4]>,
    failures: Vec<String>,
    /// The text that a row's first two cells must contain; other rows are skipped.
    wanted: String,
}

impl Report {
    /// Creates a report of all rows, or of those that contain the text of the environment variable ROWS.
    pub fn wanted() -> Self {
        Self { rows: Vec::new(), failures: Vec::new(), wanted: env::var("ROWS").unwrap_or_default() }
    }

    /// Runs a test and adds its row.
    pub async fn add(&mut self, manifests: &str, delivery: &str, test: impl Future<Output = Result<String>>) {
        if !format!("{manifests}, {delivery}").contains(&self.wanted) {
            return;
        }
        let start = Instant::now();
        let proven = test.await.unwrap_or_else(|error| {
            self.failures.push(format!("{manifests}, {delivery}: {error:#}"));
            "**failed**".to_owned()
        });
        let took = format!("{:.0} s", start.elapsed().as_secs_f64());
        println!("{manifests}, {delivery}: {proven} ({took})");
        self.rows.push([manifests.to_owned(), delivery.to_owned(), proven, took]);
    }

    /// Returns an error if any row failed.
    pub fn result(&self) -> Result<()> {
        ensure!(self.failures.is_empty(), "{} failures:\n{}", self.failures.len(), self.failures.join("\n"));
        Ok(())
    }
}

impl Display for Report {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "| manifests | delivery | evidence | duration |\n|---|---|---|--:|")?;
        self.rows.iter().try_for_each(|cells| writeln!(to, "| {} |", cells.join(" | ")))
    }
}
