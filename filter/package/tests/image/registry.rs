//! The image in a registry: pushed with crane, and pulled with Istio's own code.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use bulk_reshuffle_stack::{Client, Lifetime, Process, Tools, port, wait};
use tempfile::TempDir;

use crate::{output, stdout, text};

const LIMIT: Duration = Duration::from_secs(30);

/// A registry on loopback that stores nothing permanently, and the module to push to it.
struct Registry {
    crane: PathBuf,
    pull: PathBuf,
    address: String,
    module: Vec<u8>,
    folder: TempDir,
    _process: Process,
}

impl Registry {
    async fn start() -> Self {
        let tools = Tools::find().unwrap();
        let module = fs::read(tools.wasm().unwrap()).unwrap();
        let program = |tool: &str| tools.folder(tool).unwrap().join(tool);
        let (crane, pull, folder) = (program("crane"), program("istio-pull"), TempDir::new().unwrap());
        let address = port::loopback(port::free().unwrap()).to_string();
        let mut command = Command::new(&crane);
        command.args(["registry", "serve", "--address", &address]);
        let log = folder.path().join("registry.log");
        let process = Process::start("registry", command, &log, Lifetime::WithParent).unwrap();
        let (client, url) = (Client::new(), format!("http://{address}/v2/"));
        wait::until(LIMIT, "the registry does not answer", async || {
            process.ensure_running()?;
            Ok(client.get(&url).await.and_then(|response| response.ok()).ok())
        })
        .await
        .unwrap();
        Self { crane, pull, address, module, folder, _process: process }
    }

    /// Returns the `url` of a `WasmPlugin`, without the scheme.
    fn name(&self) -> String {
        format!("{}/bulk-reshuffle:test", self.address)
    }

    /// Builds and pushes an image of a module, and returns the digest that the build command prints.
    fn push(&self, module: &[u8]) -> String {
        let (file, layout) = (self.folder.path().join("any-name.wasm"), self.folder.path().join("image"));
        fs::write(&file, module).unwrap();
        let digest = stdout(Command::new(env!("CARGO_BIN_EXE_bulk-reshuffle-image")).arg(file).arg(&layout));
        let pushed = stdout(Command::new(&self.crane).arg("push").arg(&layout).arg(self.name()));
        assert_eq!(pushed, format!("{}/bulk-reshuffle@{digest}", self.address));
        digest
    }

    /// Pulls the module as Istio does for a `WasmPlugin` with this `sha256`, or returns the refusal.
    fn pull(&self, sha256: &str) -> Result<Vec<u8>, String> {
        let cache = TempDir::new().unwrap();
        let url = format!("oci://{}", self.name());
        let output = output(Command::new(&self.pull).args([&url, sha256]).arg(cache.path()));
        if !output.status.success() {
            return Err(text(&output.stderr));
        }
        // The path is on the last line, after Istio's log.
        Ok(fs::read(text(&output.stdout).lines().last().unwrap()).unwrap())
    }
}

/// Returns the digest in the form that a `WasmPlugin` uses.
fn sha256(digest: &str) -> &str {
    digest.strip_prefix("sha256:").unwrap()
}

#[tokio::test]
async fn istio_pulls_only_the_module_that_the_digest_names() {
    let registry = Registry::start().await;
    let digest = registry.push(&registry.module);
    assert_eq!(registry.pull(sha256(&digest)).unwrap(), registry.module);
    // Without a sha256, a WasmPlugin accepts any image with the tag.
    assert_eq!(registry.pull("").unwrap(), registry.module);

    let module_alone = "3b".repeat(32);
    let refusal = registry.pull(&module_alone).unwrap_err();
    assert!(
        refusal.contains(&format!("has checksum {}, which does not match: {module_alone}", sha256(&digest))),
        "{refusal}"
    );

    // The tag moves to another module, one byte longer.
    let other = [registry.module.as_slice(), b"\0"].concat();
    let moved = registry.push(&other);
    assert_ne!(moved, digest);
    let refusal = registry.pull(sha256(&digest)).unwrap_err();
    assert!(refusal.contains(&format!("has checksum {}", sha256(&moved))), "{refusal}");
    assert_eq!(registry.pull("").unwrap(), other);
}
