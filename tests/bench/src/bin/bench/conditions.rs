//! The conditions of a run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::Result;
use serde::Serialize;

use crate::machine::Machine;
use crate::options::Options;
use crate::site::Site;

/// The conditions that affect a run's figures, except its options.
#[derive(Debug, Clone, Serialize)]
pub struct Conditions {
    /// The year, month and day, in UTC.
    pub date: String,
    /// The machine that everything ran on.
    pub machine: Machine,
    /// The nodes' product and version.
    pub cluster: String,
    /// Envoy's version.
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
