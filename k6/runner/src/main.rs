//! Runs a k6 script against the given addresses, or against a three-node cluster behind Envoy with the filter, which it
//! starts and stops.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use bulk_reshuffle_k6::{Script, Site, activity};
use bulk_reshuffle_stack::{Counters, FilterConfig, Profile, Tools};
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> ExitCode {
    run().await.unwrap_or_else(|error| {
        eprintln!("{} {error:#}", console::style("error:").for_stderr().red());
        ExitCode::FAILURE
    })
}

async fn run() -> Result<ExitCode> {
    let tools = Tools::find()?;
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.is_empty()).collect();
    let (name, target) = match arguments.as_slice() {
        [name] => (name, None),
        [name, target] => (name, Some(target)),
        _ => bail!("expected one script, as in `make k6 SCRIPT=small`: one of {}", Script::names(&tools)?.join(", ")),
    };
    let script = Script::find(&tools, name)?;
    let results = results(&tools.root, script.name())?;
    let status = match target {
        Some(target) => finish(command(&script, target, &results)).await?,
        None if script.has_addresses() => finish(command(&script, "", &results)).await?,
        None => run_on_site(&tools, &script, &results).await?,
    };
    print_outcome(status, &results);
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Starts a cluster and Envoy, and runs the script against them.
async fn run_on_site(tools: &Tools, script: &Script, results: &Path) -> Result<ExitStatus> {
    eprintln!("starting three OpenSearch nodes and Envoy with the filter; set TARGET=http://… to use another target");
    let run_dir = tools.root.join(".run/k6");
    let filter = match std::env::var("API").as_deref() {
        Ok("document") => FilterConfig::Merged(json!({"single_documents": true})),
        _ => FilterConfig::Shipped,
    };
    let site = tokio::select! {
        site = Site::start(tools, &run_dir, Profile::Throughput, filter) => site?,
        // Dropping the half-started site ends its processes.
        _ = tokio::signal::ctrl_c() => bail!("interrupted; everything was stopped"),
    };
    let status = finish(command(script, &site.target(), results)).await?;
    println!("\n  the filter: {}", activity(&Counters::read(&site.envoy).await?));
    site.stop().await?;
    Ok(status)
}

/// Returns the script's command with this process's environment.
fn command(script: &Script, target: &str, results: &Path) -> Command {
    let mut command = script.command(target, results, std::env::vars_os());
    if !std::io::stdout().is_terminal() {
        command.arg("--quiet");
    }
    command
}

/// Runs k6 until it ends. On Ctrl-C, k6 also gets the signal, ends the load in order and still prints its summary.
async fn finish(mut command: Command) -> Result<ExitStatus> {
    let mut child = command.kill_on_drop(true).spawn().context("cannot start k6")?;
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    loop {
        tokio::select! {
            status = child.wait() => return Ok(status?),
            _ = interrupt.recv() => {}
            _ = terminate.recv() => forward_end(&child)?,
        }
    }
}

fn forward_end(child: &Child) -> Result<()> {
    let pid = child.id().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
    // Without a pid, k6 has already ended.
    pid.map_or(Ok(()), |pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM))?;
    Ok(())
}

/// Returns `k6/results/<script>-<time>`, and creates the folder.
fn results(root: &Path, script: &str) -> Result<PathBuf> {
    let folder = root.join("k6/results");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string().replace(':', "");
    Ok(folder.join(format!("{script}-{time}")))
}

fn print_outcome(status: ExitStatus, results: &Path) {
    let html = results.with_extension("html");
    if html.is_file() {
        println!("  the report: {}", html.display());
        println!("  all figures: {}", results.with_extension("json").display());
    }
    if !status.success() {
        let failed = console::style("k6 failed:").for_stderr().red();
        eprintln!("\n{failed} see the error or the ✗ above; the figures are not valid");
    }
}
