use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::{Client, Lifetime, Process, Tools, port, wait};
use sha2::{Digest, Sha256};

/// For a server to start.
const LIMIT: Duration = Duration::from_secs(60);

/// Where the filter can be had, on a web server and in a registry, and what values.yaml says of it.
#[derive(Debug, Clone)]
pub struct Module {
    /// The file's address.
    pub address: String,
    /// The file's digest.
    pub sha256: String,
    /// The image's address.
    pub image: String,
    /// The digest of the image's manifest.
    pub digest: String,
    _servers: Arc<[Process; 2]>,
}

impl Module {
    /// Puts the file on a web server, and the image of `make image` into a registry.
    pub async fn publish(tools: &Tools, run_dir: &Path) -> Result<Self> {
        fs::create_dir_all(run_dir)?;
        let (file, layout) = (tools.wasm()?, tools.root.join("dist/image"));
        ensure!(layout.is_dir(), "{} is missing: run `make image` first", layout.display());
        let crane = tools.folder("crane")?.join("crane");
        let (web, registry) = (port::loopback(port::free()?), port::loopback(port::free()?).to_string());
        let mut command = Command::new("python3");
        command.args(["-m", "http.server", "--bind", "127.0.0.1", &web.port().to_string(), "--directory"]);
        command.arg(file.parent().context("a file without a folder")?);
        let web_server = Process::start("web server", command, &run_dir.join("web.log"), Lifetime::WithParent)?;
        let mut command = Command::new(&crane);
        command.args(["registry", "serve", "--address", &registry]);
        let registry_server = Process::start("registry", command, &run_dir.join("registry.log"), Lifetime::WithParent)?;
        for url in [format!("http://{web}/"), format!("http://{registry}/v2/")] {
            let client = Client::new();
            wait::until(LIMIT, "a server does not answer", async || {
                Ok(client.get(&url).await.and_then(|response| response.ok()).ok())
            })
            .await?;
        }
        let name = format!("{registry}/bulk-reshuffle:test");
        let pushed = Command::new(&crane).arg("push").arg(&layout).arg(&name).output()?;
        ensure!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
        let pushed = String::from_utf8(pushed.stdout)?;
        let (_, digest) = pushed.trim().split_once("@sha256:").context("no digest")?;
        let name_of_file = file.file_name().and_then(|name| name.to_str()).context("a file without a name")?;
        Ok(Self {
            address: format!("http://{web}/{name_of_file}"),
            sha256: Sha256::digest(fs::read(file)?).iter().map(|byte| format!("{byte:02x}")).collect(),
            image: format!("oci://{name}"),
            digest: digest.to_owned(),
            _servers: Arc::new([web_server, registry_server]),
        })
    }

    /// The same under another one's digests.
    pub fn mistaken(&self) -> Self {
        Self { sha256: "1".repeat(64), digest: "1".repeat(64), ..self.clone() }
    }

    /// Where nobody answers.
    pub fn nowhere(&self) -> Result<Self> {
        let nobody = port::loopback(port::free()?);
        let (address, image) = (format!("http://{nobody}/module.wasm"), format!("oci://{nobody}/module:1"));
        // Other digests, too: the agent may have a module with the right one.
        Ok(Self { address, image, ..self.mistaken() })
    }
}
