use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::{Process, Tools, port};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::folder::Folder;
use crate::process::{make_folder, program, start, wait_answer};

/// The filter on a web server and in a registry, with the fields that values.yaml has for both.
#[derive(Debug, Clone)]
pub struct Module {
    pub address: String,
    pub sha256: String,
    pub image: String,
    /// The digest of the image's manifest.
    pub digest: String,
    _servers: Arc<[Process; 2]>,
}

impl Module {
    /// Serves the file from a web server, and pushes the image of `make image` to a registry.
    pub async fn publish(tools: &Tools, run_dir: &Path) -> Result<Self> {
        make_folder(run_dir)?;
        let (file, layout) = (tools.wasm()?, tools.root.join("dist/image"));
        ensure!(layout.is_dir(), "{} is missing: run `make image` first", layout.display());
        let (web, registry) = (port::loopback(port::free()?), port::loopback(port::free()?).to_string());
        let mut command = Command::new("python3");
        command.args(["-m", "http.server", "--bind", "127.0.0.1", &web.port().to_string(), "--directory"]);
        command.arg(file.parent().context("the module has no parent folder")?);
        let web_server = start("web server", command, run_dir)?;
        let mut command = program(tools, "crane")?;
        command.args(["registry", "serve", "--address", &registry]);
        let registry_server = start("registry", command, run_dir)?;
        wait_answer(&web_server, "the web server answers", &format!("http://{web}/")).await?;
        wait_answer(&registry_server, "the registry answers", &format!("http://{registry}/v2/")).await?;
        let name = format!("{registry}/bulk-reshuffle:test");
        let pushed = program(tools, "crane")?.arg("push").arg(&layout).arg(&name).output()?;
        ensure!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
        let pushed = String::from_utf8(pushed.stdout)?;
        let (_, digest) = pushed.trim().split_once("@sha256:").context("crane printed no digest")?;
        let name_of_file = file.file_name().and_then(|name| name.to_str()).context("the module has no file name")?;
        Ok(Self {
            address: format!("http://{web}/{name_of_file}"),
            sha256: Sha256::digest(fs::read(file)?).iter().map(|byte| format!("{byte:02x}")).collect(),
            image: format!("oci://{name}"),
            digest: digest.to_owned(),
            _servers: Arc::new([web_server, registry_server]),
        })
    }

    /// Sets the module's location in a folder's values, as a user does.
    pub fn put_into(&self, folder: &Folder) -> Result<()> {
        folder.set([
            ("/module/code/remote/http_uri/uri", json!(self.address)),
            ("/module/code/remote/sha256", json!(self.sha256)),
            ("/module/image", json!({"url": self.image, "sha256": self.digest})),
        ])
    }

    /// Returns the same module with the digests of another one.
    pub fn mistaken(&self) -> Self {
        Self { sha256: "1".repeat(64), digest: "1".repeat(64), ..self.clone() }
    }

    /// Returns a module at addresses at which no server listens.
    pub fn nowhere(&self) -> Result<Self> {
        let unused = port::loopback(port::free()?);
        let (address, image) = (format!("http://{unused}/module.wasm"), format!("oci://{unused}/module:1"));
        // The digests differ as well, because the agent may have a module with the right digest.
        Ok(Self { address, image, ..self.mistaken() })
    }
}
