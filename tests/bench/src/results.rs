//! The folder of a run's results.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::Tools;
use serde_json::json;

use crate::charts;
use crate::machine::Machine;
use crate::measurement::Measurement;
use crate::options::Options;
use crate::report;
use crate::summary::Summary;

/// Raw numbers are added as they come, so that an interrupted run has left some.
pub struct Results {
    folder: PathBuf,
    machine: Machine,
    date: String,
    raw: File,
}

impl Results {
    /// Makes the folder, in place of what an earlier run has left in it.
    pub fn create(options: &Options) -> Result<Self> {
        let machine = Machine::current()?;
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let date = now.split('T').next().unwrap_or_default().to_owned();
        let folder = match &options.out {
            Some(folder) => folder.clone(),
            None => Tools::find()?.root.join("k6/results").join(format!("{date}-{}", machine.folder_name())),
        };
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let mut raw = File::create(folder.join("rounds.jsonl"))?;
        writeln!(raw, "{}", json!({"started": now, "machine": machine.title(), "options": options}))?;
        Ok(Self { folder, machine, date, raw })
    }

    /// Keeps a measurement.
    pub fn add(&mut self, measurement: &Measurement) -> Result<()> {
        Ok(writeln!(self.raw, "{}", serde_json::to_string(measurement)?)?)
    }

    /// Writes report and charts; returns the folder.
    pub fn finish(self, options: &Options, summary: Summary) -> Result<PathBuf> {
        let report = report::write(options, &self.machine, &self.date, summary)?;
        fs::write(self.folder.join("README.md"), report)?;
        charts::throughput(&self.folder.join("throughput.svg"), options, summary)?;
        charts::latency(&self.folder.join("latency.svg"), options, summary)?;
        Ok(self.folder)
    }
}
