//! The conditions of a run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result};
use procfs::{CpuInfo, Current, Meminfo};
use serde::Serialize;

use crate::options::Options;
use crate::site::Site;

/// The conditions that affect a run's figures, except its options.
#[derive(Debug, Clone, Serialize)]
pub struct Conditions {
    /// The year, month and day, in UTC.
    pub date: String,
    pub machine: Machine,
    /// The nodes' product and version.
    pub cluster: String,
    pub envoy: String,
    /// The commit of the checkout.
    pub filter: String,
    /// The directory of the checkout.
    #[serde(skip)]
    pub root: PathBuf,
}

impl Conditions {
    /// Collects the conditions from the running processes and the machine.
    pub async fn read(site: &Site, options: &Options, root: &Path) -> Result<Self> {
        let (cluster, envoy) = site.versions(options).await?;
        Ok(Self {
            date: today(),
            machine: Machine::current()?,
            cluster,
            envoy,
            filter: commit(root),
            root: root.to_owned(),
        })
    }
}

fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}

/// Returns the checkout's commit, if Git knows it.
fn commit(root: &Path) -> String {
    let output = Command::new("git").args(["describe", "--always", "--dirty"]).current_dir(root).output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout).unwrap_or_default();
    match String::from_utf8_lossy(&text).trim() {
        "" => "of an unknown commit".to_owned(),
        commit => format!("commit {commit}"),
    }
}

/// The properties of a machine that affect its figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    cores: usize,
    model: String,
    gibibytes: u64,
}

impl Machine {
    pub fn current() -> Result<Self> {
        let processors = CpuInfo::current()?;
        let model = processors.model_name(0).context("the kernel does not report the processor's model")?;
        let memory = Meminfo::current()?.mem_total;
        Ok(Self {
            cores: processors.num_cores(),
            model: model.split_whitespace().collect::<Vec<_>>().join(" "),
            // The kernel reserves some memory, so that 24 GiB appear as 23.5.
            gibibytes: (memory as f64 / f64::from(1 << 30)).ceil() as u64,
        })
    }

    pub fn title(&self) -> String {
        let Self { cores, model, gibibytes } = self;
        format!("{cores} cores ({model}), {gibibytes} GiB")
    }

    /// Returns a description for a folder name: `2-amd-epyc-24gib`.
    pub fn folder_name(&self) -> String {
        let Self { cores, model, gibibytes } = self;
        let words = format!("{cores} {model} {gibibytes}gib").to_lowercase();
        let words = words.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_after_cores_model_and_memory() {
        let machine = Machine { cores: 8, model: "Intel(R) Xeon(R) CPU @ 2.20GHz".into(), gibibytes: 32 };
        assert_eq!(machine.folder_name(), "8-intel-r-xeon-r-cpu-2-20ghz-32gib");
        assert_eq!(machine.title(), "8 cores (Intel(R) Xeon(R) CPU @ 2.20GHz), 32 GiB");
    }

    #[test]
    fn this_machine_has_a_name() {
        assert!(!Machine::current().unwrap().folder_name().is_empty());
    }
}
