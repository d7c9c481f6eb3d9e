use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::{Client, Lifetime, Process, Tools, wait};
use tokio::net::TcpStream;

use crate::LIMIT;

/// Returns a command that runs a fetched program, which has the name of its tool.
pub(crate) fn program(tools: &Tools, name: &str) -> Result<Command> {
    Ok(Command::new(tools.folder(name)?.join(name)))
}

/// Starts a process, which writes `<name>.log` into a folder.
pub(crate) fn start(name: &str, command: Command, folder: &Path) -> Result<Process> {
    Process::start(name, command, &folder.join(format!("{name}.log")), Lifetime::WithParent)
}

/// Waits until a process answers requests to a URL.
pub(crate) async fn wait_answer(process: &Process, what: &str, url: &str) -> Result<()> {
    let client = Client::new();
    wait_for(process, what, async || client.get(url).await?.ok().map(|_| ())).await
}

/// Waits until a process accepts connections at an address.
pub(crate) async fn wait_connection(process: &Process, what: &str, address: SocketAddr) -> Result<()> {
    wait_for(process, what, async || Ok(TcpStream::connect(address).await?)).await.map(drop)
}

/// Waits until a process has done its part, so that a probe succeeds.
pub(crate) async fn wait_for<T>(process: &Process, what: &str, probe: impl AsyncFn() -> Result<T>) -> Result<T> {
    wait::until(LIMIT, what, async || {
        process.ensure_running()?;
        Ok(probe().await.ok())
    })
    .await
    .with_context(|| process.log_extract())
}

/// Creates a folder with its parents, and returns its path.
pub(crate) fn make_folder(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder.to_path_buf())
}
