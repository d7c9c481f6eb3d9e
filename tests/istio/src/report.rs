use std::env;
use std::fmt::{self, Display};
use std::time::Instant;

use anyhow::{Result, ensure};

/// Manifests in rows, with how they were delivered and what their traffic proved.
#[derive(Debug)]
pub struct Report {
    rows: Vec<[String; 4]>,
    failures: Vec<String>,
    /// What a row must have in its first two cells to be looked at.
    wanted: String,
}

impl Report {
    /// Of all rows, or of those that have the text of the environment variable ROWS.
    pub fn wanted() -> Self {
        Self { rows: Vec::new(), failures: Vec::new(), wanted: env::var("ROWS").unwrap_or_default() }
    }

    /// Runs a test and adds how it went.
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

    /// An error if there is one in any row.
    pub fn result(&self) -> Result<()> {
        ensure!(self.failures.is_empty(), "{} failures:\n{}", self.failures.len(), self.failures.join("\n"));
        Ok(())
    }
}

impl Display for Report {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "| manifests | delivery | proven by traffic | |\n|---|---|---|--:|")?;
        self.rows.iter().try_for_each(|cells| writeln!(to, "| {} |", cells.join(" | ")))
    }
}
