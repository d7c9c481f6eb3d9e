//! The programs that can start Envoy.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::tools::Tools;

/// The program that starts Envoy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Launcher {
    /// No launcher: Envoy itself.
    #[default]
    Direct,
    /// `func-e run` on a machine without a network that has downloaded this Envoy before. func-e must find it by the
    /// checkout's `.envoy-version`.
    FuncE,
    /// `func-e run` on a machine that has never had a network. `ENVOY_PATH` has Envoy's path.
    FuncEWithPath,
}

impl Launcher {
    /// Returns the command without Envoy's arguments. The launcher keeps its files in the run folder.
    pub(crate) fn command(self, tools: &Tools, run_dir: &Path) -> Result<Command> {
        if self == Self::Direct {
            return Ok(Command::new(&tools.envoy));
        }
        let home = std::path::absolute(run_dir)?.join("func-e");
        let mut command = func_e(tools, &home)?;
        if self == Self::FuncE {
            let installed = home.join("data/envoy-versions").join(version(tools)?).join("bin");
            fs::create_dir_all(&installed).with_context(|| format!("cannot create {}", installed.display()))?;
            symlink(&tools.envoy, installed.join("envoy")).context("cannot install Envoy for func-e")?;
        } else {
            command.env("ENVOY_PATH", &tools.envoy);
        }
        Ok(command)
    }
}

/// Returns `func-e run` with its own folders, and with proxies and URLs that refuse connections.
fn func_e(tools: &Tools, home: &Path) -> Result<Command> {
    const NOWHERE: &str = "http://127.0.0.1:1";
    let mut command = Command::new(tools.folder("func-e")?.join("func-e"));
    for inherited in ["ENVOY_PATH", "ENVOY_VERSION", "FUNC_E_HOME", "NO_PROXY", "no_proxy"] {
        command.env_remove(inherited);
    }
    for variable in ["ENVOY_VERSIONS_URL", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
        command.env(variable, NOWHERE);
    }
    for (variable, folder) in
        [("CONFIG_HOME", "config"), ("DATA_HOME", "data"), ("STATE_HOME", "state"), ("RUNTIME_DIR", "run")]
    {
        command.env(format!("FUNC_E_{variable}"), home.join(folder));
    }
    command.arg("run");
    Ok(command)
}

/// Returns the version of the fetched Envoy, whose stamp has the tool's name and version.
fn version(tools: &Tools) -> Result<String> {
    let stamp = tools.envoy.with_file_name(".stamp");
    let text = fs::read_to_string(&stamp).with_context(|| format!("cannot read {}", stamp.display()))?;
    text.split(' ').nth(1).map(str::to_owned).with_context(|| format!("{} does not contain a version", stamp.display()))
}
