//! The execution of other programs.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// A limit far above the duration of any program, even on a busy machine. rsyslog may then find a node too slow. It
/// pauses for 30 seconds, and longer each time. Go compiles the clients in a minute of processor time.
pub const LIMIT: Duration = Duration::from_secs(600);

/// Returns a command without the caller's environment, which may, for example, set a proxy.
pub fn bare(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// Runs a program to its end, and returns its status and what it printed.
pub async fn output(name: &str, command: Command, input: Stdio) -> Result<Output> {
    let mut command = tokio::process::Command::from(command);
    command.stdin(input).kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, command.output()).await;
    Ok(output.with_context(|| format!("{name} timed out"))??)
}

/// Runs a program to its end, which must be a success, and returns what it printed.
pub async fn run(name: &str, command: Command, input: Stdio) -> Result<String> {
    let Output { status, stdout, stderr } = output(name, command, input).await?;
    let printed = text(&stdout);
    if !status.success() {
        bail!("{name}: {status}\n{printed}{}", text(&stderr));
    }
    Ok(printed)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
