use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use bulk_reshuffle_stack::Envoy;

/// The words that Envoy logs when the filter's VM fails or the filter reports an error of its own.
const FAULTS: &[&str] = &["[critical]", "[error]", "panicked", "Function: proxy_", "Uncaught"];

/// Returns an error if a VM of the filter has died in this Envoy, or if the filter has reported an error of its own.
pub async fn check_filter(envoy: &Envoy) -> Result<()> {
    for (name, count) in envoy.stats_with("vm_reload").await? {
        ensure!(count == 0, "{name} is {count}: {}", envoy.process().log_extract());
    }
    let log = envoy.log();
    match log.lines().find(|line| FAULTS.iter().any(|fault| line.contains(fault))) {
        Some(line) => bail!("Envoy logged: {line}"),
        None => Ok(()),
    }
}

/// Returns the path of a filter whose VM any request with the header `x-forced-trap` kills. `temporary` is
/// `CARGO_TARGET_TMPDIR`, which is only set for tests.
pub fn forced_trap(temporary: &str) -> Result<PathBuf> {
    let target = Path::new(temporary).parent().context("no target folder")?;
    let wasm = target.join("wasm32-wasip1/wasm/examples/forced_trap.wasm");
    ensure!(wasm.is_file(), "{} is missing: run `make forced-trap` first", wasm.display());
    Ok(wasm)
}
