//! The paths of the fetched tools and of the checkout's own files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::distribution::Distribution;

/// The paths of everything that the stack runs.
#[derive(Debug, Clone)]
pub struct Tools {
    /// The checkout.
    pub root: PathBuf,
    /// The Envoy binary: that of the tool that the variable `ENVOY` names, or of `envoy`.
    pub envoy: PathBuf,
    /// The Java runtime's folder.
    pub java: PathBuf,
    /// The folder of all fetched tools.
    fetched: PathBuf,
    /// The filter of `make build`. The file may not exist: see [`Tools::wasm`].
    wasm: PathBuf,
}

impl Tools {
    /// Finds the checkout that contains the current folder, and the tools in it.
    pub fn find() -> Result<Self> {
        let here = std::env::current_dir().context("the current folder does not exist")?;
        match here.ancestors().find(|folder| folder.join(".envoy-version").is_file()) {
            Some(root) => Self::in_checkout(root),
            None => bail!("{} is not inside a checkout of bulk-reshuffle", here.display()),
        }
    }

    /// Returns the tools of a checkout.
    pub fn in_checkout(root: &Path) -> Result<Self> {
        let tools = root.join(".tools");
        let found = Self {
            root: root.to_path_buf(),
            envoy: tools.join(std::env::var("ENVOY").as_deref().unwrap_or("envoy")).join("envoy"),
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

    /// Returns a tool's folder by its name in `tests/tools/fetch.py`.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.fetched.join(name);
        if !folder.join(".stamp").is_file() {
            bail!("{} is missing: run `python3 tests/tools/fetch.py {name}` first", folder.display());
        }
        Ok(folder)
    }

    /// Returns the folder of an unpacked search server.
    pub fn server(&self, distribution: Distribution) -> Result<PathBuf> {
        self.folder(distribution.name())
    }

    /// Returns the path of the compiled filter.
    pub fn wasm(&self) -> Result<&Path> {
        if !self.wasm.is_file() {
            bail!("{} is missing: run `make build` first", self.wasm.display());
        }
        Ok(&self.wasm)
    }

    /// Returns the path of the shipped Envoy configuration.
    pub fn envoy_yaml(&self) -> PathBuf {
        self.root.join("envoy/envoy.yaml")
    }
}
