//! Where the fetched tools and the checkout's own files are.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::distribution::Distribution;

/// Paths of everything that the stack runs.
#[derive(Debug, Clone)]
pub struct Tools {
    /// The checkout.
    pub root: PathBuf,
    /// The Envoy binary.
    pub envoy: PathBuf,
    /// The Java runtime's folder.
    pub java: PathBuf,
    /// Everything that was fetched.
    fetched: PathBuf,
    /// The filter, as `make build` leaves it. It need not exist: ask [`Tools::wasm`].
    wasm: PathBuf,
}

impl Tools {
    /// Looks for the checkout from the current folder upwards, and in it for the tools.
    pub fn find() -> Result<Self> {
        let here = std::env::current_dir().context("the current folder is gone")?;
        match here.ancestors().find(|folder| folder.join(".envoy-version").is_file()) {
            Some(root) => Self::in_checkout(root),
            None => bail!("{} is not inside a checkout of bulk-reshuffle", here.display()),
        }
    }

    /// The tools of the given checkout.
    pub fn in_checkout(root: &Path) -> Result<Self> {
        let tools = root.join(".tools");
        let found = Self {
            root: root.to_path_buf(),
            envoy: tools.join("envoy/envoy"),
            java: tools.join("java"),
            fetched: tools.clone(),
            wasm: root.join("dist/bulk_reshuffle.wasm"),
        };
        for path in [&found.envoy, &found.java.join("bin/java")] {
            if !path.exists() {
                bail!("{} is missing: run `make tools` first", path.display());
            }
        }
        Ok(found)
    }

    /// A tool's folder by its name in `tests/tools/fetch.py`.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.fetched.join(name);
        if !folder.join(".stamp").is_file() {
            bail!("{} is missing: run `python3 tests/tools/fetch.py {name}` first", folder.display());
        }
        Ok(folder)
    }

    /// A search server, unpacked.
    pub fn server(&self, distribution: Distribution) -> Result<PathBuf> {
        self.folder(distribution.name())
    }

    /// The compiled filter.
    pub fn wasm(&self) -> Result<&Path> {
        if !self.wasm.is_file() {
            bail!("{} is missing: run `make build` first", self.wasm.display());
        }
        Ok(&self.wasm)
    }

    /// The Envoy configuration that the project ships.
    pub fn envoy_yaml(&self) -> PathBuf {
        self.root.join("envoy/envoy.yaml")
    }
}
