use std::fmt::{self, Display};

use anyhow::{Result, ensure};

/// Manifests in rows, with how they were delivered and what their traffic proved.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<[String; 3]>,
    failures: Vec<String>,
}

impl Report {
    pub fn add(&mut self, manifests: &str, delivery: &str, proven: Result<String>) {
        let proven = proven.unwrap_or_else(|error| {
            self.failures.push(format!("{manifests}, {delivery}: {error:#}"));
            "**failed**".to_owned()
        });
        println!("{manifests}, {delivery}: {proven}");
        self.rows.push([manifests.to_owned(), delivery.to_owned(), proven]);
    }

    pub fn result(&self) -> Result<()> {
        ensure!(self.failures.is_empty(), "{} failures:\n{}", self.failures.len(), self.failures.join("\n"));
        Ok(())
    }
}

impl Display for Report {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "| manifests | delivery | proven by traffic |\n|---|---|---|")?;
        self.rows.iter().try_for_each(|cells| writeln!(to, "| {} |", cells.join(" | ")))
    }
}
