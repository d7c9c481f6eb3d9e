use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use bulk_reshuffle_stack::Tools;
use tokio::process::Command;

/// A script in `k6/`.
#[derive(Debug, Clone)]
pub struct Script {
    name: String,
    path: PathBuf,
    k6: PathBuf,
}

impl Script {
    pub fn names(tools: &Tools) -> Result<Vec<String>> {
        let folder = tools.root.join("k6");
        let files = folder.read_dir().with_context(|| format!("cannot read {}", folder.display()))?;
        let paths = files.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
        let is_script = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "js");
        let stem = |path: &PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
        let mut names: Vec<String> = paths.iter().filter(is_script).filter_map(stem).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the script with a name, or an error that lists all scripts.
    pub fn find(tools: &Tools, name: &str) -> Result<Self> {
        let names = Self::names(tools)?;
        if !names.iter().any(|known| known == name) {
            bail!("there is no script {name:?}: set SCRIPT to one of {}", names.join(", "));
        }
        let path = tools.root.join("k6").join(name).with_extension("js");
        Ok(Self { name: name.into(), path, k6: tools.folder("k6")?.join("k6") })
    }

    /// Returns the command that runs the script against comma-separated addresses. The environment variables are the
    /// script's other parameters and k6's own. The script writes `<results>.html` and `<results>.json`.
    pub fn command<N, V>(&self, target: &str, results: &Path, environment: impl IntoIterator<Item = (N, V)>) -> Command
    where
        N: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        let mut command = Command::new(&self.k6);
        command
            // Disable the interface for remote control, because its port may be in use.
            .args(["run", "--address", ""])
            .arg(&self.path)
            .env_clear()
            // No live page, unless the environment sets its port; a report even for runs of a few seconds.
            .envs([("K6_WEB_DASHBOARD", "true"), ("K6_WEB_DASHBOARD_PORT", "-1"), ("K6_WEB_DASHBOARD_PERIOD", "1s")])
            .envs(environment)
            .env("K6_WEB_DASHBOARD_EXPORT", results.with_extension("html"))
            // By default, k6 reports every run to its makers and fetches extensions automatically.
            .envs([("K6_NO_USAGE_REPORT", "true"), ("K6_AUTO_EXTENSION_RESOLUTION", "false")])
            .env("TARGET", target)
            .env("RESULTS", results);
        command
    }

    /// Reports whether the script has its own parameters for addresses instead of `TARGET`.
    pub fn has_addresses(&self) -> bool {
        self.name == "replay"
    }

    /// Returns the script's name without the extension.
    pub fn name(&self) -> &str {
        &self.name
    }
}
