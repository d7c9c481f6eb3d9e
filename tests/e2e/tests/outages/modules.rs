use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bulk_reshuffle_stack::Tools;

/// Three modules: the compiled one, another one, and one that does not load. The other one is that of the last release if
/// `LAST_RELEASE` is its path. Otherwise it does the same as the compiled one.
pub struct Modules {
    pub compiled: PathBuf,
    pub other: PathBuf,
    pub broken: PathBuf,
}

impl Modules {
    /// Makes them in this folder.
    pub fn make(folder: &Path) -> Result<Self> {
        /// An empty custom section with the name `next`, with which the module is another one for Envoy.
        const SECTION: &[u8] = b"\x00\x05\x04next";
        let compiled = Tools::find()?.wasm()?.to_path_buf();
        let (other, broken) = (folder.join("other.wasm"), folder.join("broken.wasm"));
        let bytes = fs::read(&compiled)?;
        match std::env::var_os("LAST_RELEASE") {
            Some(released) => _ = fs::copy(released, &other)?,
            None => fs::write(&other, [&bytes, SECTION].concat())?,
        }
        fs::write(&broken, bytes.get(..bytes.len() / 2).context("the module is empty")?)?;
        Ok(Self { compiled, other, broken })
    }
}
