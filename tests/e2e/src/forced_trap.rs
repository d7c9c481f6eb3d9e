use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Returns the path of a filter whose VM any request with the header `x-forced-trap` kills. `temporary` is
/// `CARGO_TARGET_TMPDIR`, which is only set for tests.
pub fn forced_trap(temporary: &str) -> Result<PathBuf> {
    let target = Path::new(temporary).parent().context("no target folder")?;
    let wasm = target.join("forced-trap/wasm32-wasip1/wasm/bulk_reshuffle_filter.wasm");
    ensure!(wasm.is_file(), "{} is missing: run `make forced-trap` first", wasm.display());
    Ok(wasm)
}
