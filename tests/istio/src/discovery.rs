use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bulk_reshuffle_stack::{Client, Process, Tools, port};

use crate::direct_proxy::start_direct;
use crate::folder::Folder;
use crate::manifests::{Manifests, yaml};
use crate::mesh::ControlPlane;
use crate::overlay::Overlay;
use crate::pod::Pod;
use crate::process::{make_folder, program, start, wait_answer};
use crate::proxy::{Kind, Proxy};
use crate::site::Site;

/// The mesh configuration. There are no injected sidecars and there is no CA, so nothing is encrypted.
const MESH: &str = "rootNamespace: istio-system\ningressControllerMode: \"OFF\"\nenableAutoMtls: false\n";

/// istiod's xDS server. Dropping it kills the process.
#[derive(Debug)]
pub struct Discovery {
    process: Process,
    address: SocketAddr,
    control: SocketAddr,
    run_dir: PathBuf,
    client: Client,
}

impl Discovery {
    /// Starts the server with these resources and returns when it serves them.
    pub async fn serve(tools: &Tools, run_dir: &Path, manifests: &Manifests) -> Result<Self> {
        let (address, control) = (port::loopback(port::free()?), port::loopback(port::free()?));
        make_folder(run_dir)?;
        write(run_dir, manifests)?;
        fs::write(run_dir.join("mesh.yaml"), MESH)?;
        let mut command = program(tools, "istio-discovery")?;
        command
            .args(["-address", &address.to_string(), "-control", &control.to_string()])
            .args(["-istio", "istio.yaml", "-kubernetes", "kubernetes.yaml", "-mesh", "mesh.yaml"])
            // Only Istio's own build of Envoy has these two filters.
            .env("PILOT_ENABLE_METADATA_EXCHANGE", "false")
            .env("PILOT_ENABLE_ALPN_FILTER", "false")
            // The resources of a reload arrive one by one. If istiod pushes between two of them, it can forget to remove
            // the Envoy cluster of a service that goes. On a busy machine, its default of 100 ms is too short.
            .env("PILOT_DEBOUNCE_AFTER", "500ms")
            .current_dir(run_dir);
        let process = start("istiod", command, run_dir)?;
        wait_answer(&process, "istiod is ready", &format!("http://{control}/debug/syncz")).await?;
        Ok(Self { process, address, control, run_dir: run_dir.to_path_buf(), client: Client::new() })
    }

    /// Kills the server; proxies are then without one.
    pub fn kill(&self) -> Result<()> {
        self.process.kill()
    }
}

impl<'a> ControlPlane<'a> for Discovery {
    type Servers = ();
    const COUNTS_REJECTIONS: bool = true;

    fn place_module(site: &Site, folder: &Folder) -> Result<()> {
        folder.set_module(site.tools.wasm()?)
    }

    async fn start(site: &'a Site, folder: &Path, overlay: &Overlay, pod: &Pod) -> Result<Self> {
        Self::serve(&site.tools, folder, &overlay.complete(pod)?).await
    }

    async fn start_proxy(&self, tools: &Tools, folder: &Path, kind: Kind, pod: &Pod) -> Result<Proxy> {
        start_direct(tools, folder, kind, pod, self.address).await.with_context(|| self.process.log())
    }

    /// Replaces all resources, as `kubectl apply --prune` does; proxies get the changes. If Istio rejects them, this is
    /// an error and nothing changes.
    async fn apply(&self, overlay: &Overlay, pod: &Pod) -> Result<()> {
        write(&self.run_dir, &overlay.complete(pod)?)?;
        let answer = self.client.post(&format!("http://{}/reload", self.control), "text/plain", "").await?;
        answer.ok().map(|_| ())
    }
}

/// Writes the files that the server reads.
fn write(run_dir: &Path, manifests: &Manifests) -> Result<()> {
    let (istio, kubernetes) = manifests.parts();
    fs::write(run_dir.join("istio.yaml"), yaml(istio))?;
    Ok(fs::write(run_dir.join("kubernetes.yaml"), yaml(kubernetes))?)
}
