//! The folder of a run's results.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use crate::charts;
use crate::conditions::Conditions;
use crate::measurement::Measurement;
use crate::options::Options;
use crate::report;
use crate::summary::Summary;

/// Raw numbers are added as they come, so that an interrupted run has left some.
pub struct Results {
    folder: PathBuf,
    conditions: Conditions,
    raw: File,
}

impl Results {
    /// Makes the folder, in place of what an earlier run has left in it.
    pub fn create(options: &Options, conditions: Conditions, root: &Path) -> Result<Self> {
        let folder = match &options.out {
            Some(folder) => folder.clone(),
            None => root.join("k6/results").join(format!("{}-{}", conditions.date, conditions.machine.folder_name())),
        };
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let mut raw = File::create(folder.join("rounds.jsonl"))?;
        writeln!(raw, "{}", json!({"conditions": conditions, "options": options}))?;
        Ok(Self { folder, conditions, raw })
    }

    /// Keeps a measurement.
    pub fn add(&mut self, measurement: &Measurement) -> Result<()> {
        Ok(writeln!(self.raw, "{}", serde_json::to_string(measurement)?)?)
    }

    /// Writes report and charts; returns the folder.
    pub fn finish(self, options: &Options, summary: Summary) -> Result<PathBuf> {
        let charts = charts::write(&self.folder, options, summary)?;
        let report = report::write(options, &self.conditions, &charts, summary)?;
        fs::write(self.folder.join("README.md"), report)?;
        Ok(self.folder)
    }
}
