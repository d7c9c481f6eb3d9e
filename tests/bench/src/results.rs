//! The folder of a run's results.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use crate::conditions::Conditions;
use crate::options::Options;

/// Raw numbers are added as they come, so that an interrupted run has left some.
pub struct Results {
    folder: PathBuf,
    raw: File,
}

impl Results {
    /// Makes the folder, in place of what an earlier run has left in it; its name ends with this.
    pub fn create(options: &Options, conditions: &Conditions, ending: &str) -> Result<Self> {
        let folder = match &options.out {
            Some(folder) => folder.clone(),
            None => {
                let name = format!("{}-{}{ending}", conditions.date, conditions.machine.folder_name());
                conditions.root.join("k6/results").join(name)
            }
        };
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let mut raw = File::create(folder.join("rounds.jsonl"))?;
        writeln!(raw, "{}", json!({"conditions": conditions, "options": options}))?;
        Ok(Self { folder, raw })
    }

    /// Where everything goes.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps a measurement.
    pub fn add(&mut self, measured: &impl Serialize) -> Result<()> {
        Ok(writeln!(self.raw, "{}", serde_json::to_string(measured)?)?)
    }

    /// Keeps the report.
    pub fn write_report(&self, report: &str) -> Result<()> {
        Ok(fs::write(self.folder.join("README.md"), report)?)
    }
}
