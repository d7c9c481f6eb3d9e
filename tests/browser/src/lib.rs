//! Tests the project's web pages in a real Chromium.
//!
//! `pages/NAME.test.js` checks in JavaScript what a page shows, with the helpers in `lib`. `tests/pages/NAME.rs` starts
//! the backend in Rust (a cluster, an Envoy, the engine's expected results), and passes its address to the script:
//!
//! ```no_run
//! # async fn example(url: &str) -> anyhow::Result<()> {
//! use bulk_reshuffle_browser::look_at;
//! use bulk_reshuffle_stack::Tools;
//!
//! look_at(&Tools::find()?, "first", &[("PAGE_URL", url)]).await
//! # }
//! ```

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::Tools;
use tokio::process::Command;

/// The time limit of a script, which is generous even on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// Runs `tests/browser/pages/NAME.test.js` with these environment variables, and prints its output.
///
/// # Errors
///
/// If Node or the browser was not fetched, or if a test of the script fails. Then the error has the script's output.
pub async fn look_at(tools: &Tools, name: &str, variables: &[(&str, &str)]) -> Result<()> {
    let script = Path::new("tests/browser/pages").join(name).with_extension("test.js");
    let mut command = Command::new(tools.folder("node")?.join("bin/node"));
    command
        .args(["--test", "--test-reporter=spec"])
        .arg(&script)
        .current_dir(&tools.root)
        // The script must not inherit the caller's environment, for example its proxy.
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("NODE_PATH", tools.folder("browser")?.join("node_modules"))
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, command.output()).await.context("the browser test timed out")??;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}:\n{said}{}", script.display(), String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    Ok(())
}
