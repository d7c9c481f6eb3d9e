//! Opens the project's web pages in a real Chromium.
//!
//! What a page must show is said in JavaScript, in `pages/NAME.test.js`, with what `lib` has for it. What is behind the
//! page (a cluster, an Envoy, the numbers that core computes) is started in Rust, in `tests/pages/NAME.rs`, which hands
//! the script its address:
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

/// Far more than any of them takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// Runs `tests/browser/pages/NAME.test.js` with these environment variables, and shows what its tests say.
///
/// # Errors
///
/// If Node or the browser was not fetched, or a test of the script fails: then with all that it wrote.
pub async fn look_at(tools: &Tools, name: &str, variables: &[(&str, &str)]) -> Result<()> {
    let script = Path::new("tests/browser/pages").join(name).with_extension("test.js");
    let mut command = Command::new(tools.folder("node")?.join("bin/node"));
    command
        .args(["--test", "--test-reporter=spec"])
        .arg(&script)
        .current_dir(&tools.root)
        // Without the caller's environment: a proxy that it names, for one, is not meant here.
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("NODE_PATH", tools.folder("browser")?.join("node_modules"))
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, command.output()).await.context("the browser's test does not end")??;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}:\n{said}{}", script.display(), String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    Ok(())
}
