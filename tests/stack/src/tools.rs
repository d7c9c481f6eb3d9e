//! Where the fetched tools and the checkout's own files are.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Paths of everything that the stack runs.
#[derive(Debug, Clone)]
pub struct Tools {
    /// The checkout.
    pub root: PathBuf,
    /// The Envoy binary.
    pub envoy: PathBuf,
    /// The Java runtime's folder.
    pub java: PathBuf,
    /// OpenSearch, unpacked.
    pub opensearch: PathBuf,
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
            opensearch: tools.join("opensearch"),
            wasm: root.join("dist/bulk_reshuffle.wasm"),
        };
        for path in [&found.envoy, &found.java.join("bin/java"), &found.opensearch.join("lib")] {
            if !path.exists() {
                bail!("{} is missing: run `make tools` first", path.display());
            }
        }
        Ok(found)
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
