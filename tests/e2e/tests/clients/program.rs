//! The programs in `tests/clients`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Duration;

use bulk_reshuffle_stack::Tools;
use tokio::process::Command;

/// A limit far above the duration of any program, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A program for a client.
#[derive(Debug, Clone, Copy)]
pub enum Program {
    /// The Python program with the package of this name in `tests/tools/fetch.py`.
    Python(&'static str),
    JavaScript,
    Go,
}

impl Program {
    /// Runs the program to its end; returns what it printed.
    pub async fn run(self, arguments: &[&str]) -> String {
        let mut command = self.command().await;
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(LIMIT, command.output()).await.expect("the program timed out").unwrap();
        let (printed, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}\n{printed}{errors}", output.status);
        printed
    }

    async fn command(self) -> Command {
        let tools = Tools::find().unwrap();
        let folder = |name: &str| tools.folder(name).unwrap();
        match self {
            Self::Python(package) => {
                let mut command = bare("python3");
                command.arg(source("python/bulk.py")).env("PYTHONPATH", folder(package));
                command
            }
            Self::JavaScript => {
                let mut command = bare(folder("node").join("bin/node"));
                let packages = folder("javascript-clients").join("node_modules");
                command.arg(source("javascript/bulk.js")).env("NODE_PATH", packages);
                command
            }
            Self::Go => bare(tokio::task::spawn_blocking(|| GO_PROGRAM.clone()).await.unwrap()),
        }
    }
}

/// The Go program, compiled once from modules that are already fetched.
static GO_PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let tools = Tools::find().unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
    let program = target.join("bulk");
    let built = std::process::Command::new(tools.folder("go").unwrap().join("bin/go"))
        // Without optimization, because most of the time goes into interfaces that are not used here.
        .args(["build", "-gcflags=all=-N -l", "-o"])
        .args([&program, Path::new(".")])
        .current_dir(source("go"))
        .env_clear()
        .env("HOME", &target)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GOCACHE", target.join("cache"))
        .env("GOMODCACHE", tools.folder("go-clients").unwrap())
        .envs([("CGO_ENABLED", "0"), ("GOFLAGS", "-mod=readonly"), ("GOPROXY", "off"), ("GOTOOLCHAIN", "local")])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
});

/// Returns a command without the caller's environment, which may, for example, set a proxy.
fn bare(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients").join(path)
}
