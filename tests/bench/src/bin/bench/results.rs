//! The folder of a run's results.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use crate::conditions::Conditions;
use crate::options::Options;

/// The results of a run. Raw numbers are written as they arrive, so that an interrupted run leaves some.
pub struct Results {
    folder: PathBuf,
    raw: File,
}

impl Results {
    /// Creates the folder, and replaces an earlier run's results. The folder's name ends with `ending`.
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

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn add(&mut self, measured: &impl Serialize) -> Result<()> {
        Ok(writeln!(self.raw, "{}", serde_json::to_string(measured)?)?)
    }

    pub fn write_report(&self, report: &str) -> Result<()> {
        Ok(fs::write(self.folder.join("README.md"), report)?)
    }
}
