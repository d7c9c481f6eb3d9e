//! Envoys that tests use one after the other.
//!
//! V8 compiles the whole module when an Envoy loads it, which takes 2.7 s of processor time. A further VM of the same
//! module in the same process takes 0.05 s. So a test gets listeners and clusters of its own in an Envoy that an earlier
//! test has left.
//!
//! All VMs of a process count in the same metrics, so only one test at a time uses an Envoy. When the test has ended,
//! its listeners, clusters, VMs and metrics are removed. The next test begins when all of them are gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::client::Client;
use crate::config::{Config, Resources};
use crate::envoy::{Settings, stats_with, wait_ready};
use crate::port;
use crate::process::{Lifetime, Process};
use crate::tools::Tools;
use crate::wait;
use crate::workspace::folder_of_this_process;

/// A limit far above the time of a step, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

const LISTENERS: &str = "listener_manager.total_listeners_active";
const DRAINING: &str = "listener_manager.total_listeners_draining";
const CLUSTERS: &str = "cluster_manager.active_clusters";
const WARMING: &str = "cluster_manager.warming_clusters";
const VMS: &str = "wasm.envoy.wasm.runtime.v8.active";
const REJECTED: [&str; 2] = ["listener_manager.lds.update_rejected", "cluster_manager.cds.update_rejected"];

/// The Envoys that no test uses.
static IDLE: Mutex<Vec<SharedEnvoy>> = Mutex::new(Vec::new());

/// An Envoy that loads its listeners and clusters from files, and keeps the compiled module while it has none.
#[derive(Debug)]
pub(crate) struct SharedEnvoy {
    pub(crate) process: Arc<Process>,
    pub(crate) admin_port: u16,
    /// Everything in which Envoys may differ for their whole life.
    kind: String,
    folder: PathBuf,
    /// The VMs that keep the compiled module.
    own_vms: u64,
}

impl SharedEnvoy {
    /// Returns an Envoy without listeners and clusters that has these settings and this bootstrap configuration.
    pub(crate) async fn take(tools: &Tools, settings: &Settings, mut bootstrap: Config) -> Result<Self> {
        bootstrap.load_resources_from(Path::new("listeners.json"), Path::new("clusters.json"))?;
        bootstrap.set_admin_port(0)?;
        let kind = format!("{settings:?} {}", bootstrap.0);
        while let Some(idle) = take_idle(&kind) {
            // An Envoy that a failed test has paused or killed, for example, is dropped.
            if idle.wait_empty().await.is_ok() {
                return Ok(idle);
            }
        }
        Self::start(tools, settings, bootstrap, kind).await
    }

    async fn start(tools: &Tools, settings: &Settings, mut bootstrap: Config, kind: String) -> Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = folder_of_this_process(&tools.root.join(".run/envoys")).join(number.to_string());
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let admin_port = port::free()?;
        bootstrap.load_resources_from(&folder.join("listeners.json"), &folder.join("clusters.json"))?;
        bootstrap.set_admin_port(admin_port)?;
        let file = folder.join("envoy.json");
        fs::write(&file, serde_json::to_vec_pretty(&bootstrap.0)?)?;
        write_resources(&folder, &Resources::default())?;
        let command = settings.command(tools, &folder, &file)?;
        let process = Process::start("envoy", command, &folder.join("envoy.log"), Lifetime::WithParent)?;
        wait_ready(&process, admin_port).await?;
        let mut envoy = Self { process: Arc::new(process), admin_port, kind, folder, own_vms: 0 };
        envoy.own_vms = envoy.stats().await?.vms;
        Ok(envoy)
    }

    /// Adds listeners and clusters, and returns when Envoy serves them.
    pub(crate) async fn add(&self, resources: &Resources) -> Result<()> {
        let before = self.stats().await?.rejected;
        write(&self.folder.join("clusters.json"), &resources.clusters)?;
        let clusters = resources.clusters.len() as u64;
        self.wait("the clusters are there", before, |now| now.clusters == clusters && now.warming == 0).await?;
        write(&self.listeners(), &resources.listeners)?;
        let listeners = resources.listeners.len() as u64;
        self.wait("the listeners are there", before, |now| now.listeners == listeners).await
    }

    /// Returns the number of VMs that keep the compiled module.
    pub(crate) fn own_vms(&self) -> u64 {
        self.own_vms
    }

    /// Returns the path of the file with the listeners.
    pub(crate) fn listeners(&self) -> PathBuf {
        self.folder.join("listeners.json")
    }

    /// Removes listeners and clusters, and leaves the Envoy to the next test.
    pub(crate) fn give_back(self) {
        // A panicked test may have left anything.
        if !std::thread::panicking() && write_resources(&self.folder, &Resources::default()).is_ok() {
            idle().push(self);
        }
    }

    /// Waits until nothing of an earlier test is left.
    async fn wait_empty(&self) -> Result<()> {
        let before = self.stats().await?.rejected;
        let is_empty = |now: &Stats| {
            [now.listeners, now.draining, now.clusters].iter().all(|number| *number == 0) && now.vms == self.own_vms
        };
        self.wait("the earlier test's parts are gone", before, is_empty).await
    }

    /// Waits for a state of Envoy. A rejected update is an error.
    async fn wait(&self, what: &str, rejected: u64, is_so: impl Fn(&Stats) -> bool) -> Result<()> {
        wait::until(LIMIT, what, async || {
            self.process.ensure_running()?;
            let now = self.stats().await?;
            if now.rejected > rejected {
                bail!("Envoy rejected the configuration\n{}", self.process.log_extract());
            }
            Ok(is_so(&now).then_some(()))
        })
        .await
    }

    async fn stats(&self) -> Result<Stats> {
        let names = [&[LISTENERS, DRAINING, CLUSTERS, WARMING, VMS][..], &REJECTED].concat().join("|");
        let stats = stats_with(&Client::new(), self.admin_port, &format!("^({names})$")).await?;
        let of = |name: &str| stats.get(name).copied().unwrap_or_default();
        Ok(Stats {
            listeners: of(LISTENERS),
            draining: of(DRAINING),
            clusters: of(CLUSTERS),
            warming: of(WARMING),
            vms: of(VMS),
            rejected: REJECTED.map(of).iter().sum(),
        })
    }
}

/// What an Envoy has.
#[derive(Debug)]
struct Stats {
    listeners: u64,
    draining: u64,
    clusters: u64,
    warming: u64,
    vms: u64,
    rejected: u64,
}

fn idle() -> MutexGuard<'static, Vec<SharedEnvoy>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take_idle(kind: &str) -> Option<SharedEnvoy> {
    let mut idle = idle();
    let place = idle.iter().position(|envoy| envoy.kind == kind)?;
    Some(idle.swap_remove(place))
}

/// Replaces both files. Without its clusters, a listener would refuse requests, so it comes first.
fn write_resources(folder: &Path, resources: &Resources) -> Result<()> {
    write(&folder.join("listeners.json"), &resources.listeners)?;
    write(&folder.join("clusters.json"), &resources.clusters)
}

/// Replaces a file by a rename, which is what Envoy watches for.
fn write(path: &Path, resources: &[Value]) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, json!({"resources": resources}).to_string())?;
    fs::rename(new, path).with_context(|| format!("cannot write {}", path.display()))
}
