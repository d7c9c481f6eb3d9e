use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The filter with a way to kill its VM, which any request does that has the header `x-forced-trap`. `temporary` is
/// `CARGO_TARGET_TMPDIR`, which only tests know.
pub fn forced_trap(temporary: &str) -> Result<PathBuf> {
    let target = Path::new(temporary).parent().context("no target folder")?;
    let wasm = target.join("forced-trap/wasm32-wasip1/wasm/bulk_reshuffle_filter.wasm");
    ensure!(wasm.is_file(), "{} is missing: run `make forced-trap` first", wasm.display());
    Ok(wasm)
}
