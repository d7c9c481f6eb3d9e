//! Under which conditions a run was measured.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::Result;
use serde::Serialize;

use crate::machine::Machine;
use crate::site::Site;

/// All that makes a run's figures its own, besides its options.
#[derive(Debug, Clone, Serialize)]
pub struct Conditions {
    /// Year, month and day, in UTC.
    pub date: String,
    /// Where everything ran.
    pub machine: Machine,
    /// The nodes' product and version.
    pub cluster: String,
    /// Envoy's version.
    pub envoy: String,
    /// The commit of the checkout.
    pub filter: String,
    /// Where that is.
    #[serde(skip)]
    pub root: PathBuf,
}

impl Conditions {
    /// Asks everybody.
    pub async fn read(site: &Site, root: &Path) -> Result<Self> {
        let (cluster, envoy) = site.versions().await?;
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

/// The checkout's commit, if Git knows one.
fn commit(root: &Path) -> String {
    let output = Command::new("git").args(["describe", "--always", "--dirty"]).current_dir(root).output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout).unwrap_or_default();
    match String::from_utf8_lossy(&text).trim() {
        "" => "of an unknown commit".to_owned(),
        commit => format!("commit {commit}"),
    }
}
