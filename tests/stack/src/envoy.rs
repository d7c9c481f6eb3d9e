//! Envoy with the project's configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::Value;

use crate::client::Client;
use crate::cluster::Cluster;
use crate::config::{Config, FilterConfig};
use crate::launcher::Launcher;
use crate::port;
use crate::process::{Lifetime, Process};
use crate::tools::Tools;
use crate::wait;

const START_LIMIT: Duration = Duration::from_secs(60);

/// A last change to the configuration.
type Edit = Box<dyn FnOnce(&mut Value) -> Result<()> + Send>;

/// How an Envoy is started.
pub struct EnvoyOptions {
    /// Where configuration and log go: `<name>.json` and `<name>.log`.
    pub run_dir: PathBuf,
    /// Tells several Envoys in one folder apart.
    pub name: String,
    /// The configuration to begin with; none: the shipped `envoy/envoy.yaml`.
    pub config: Option<PathBuf>,
    /// The listener's port; none: a free one.
    pub port: Option<u16>,
    /// The port of the administration interface; none: a free one.
    pub admin_port: Option<u16>,
    /// The clusters by name, each with its endpoints. Clusters of the file that are not listed are left out.
    pub clusters: Vec<(String, Vec<SocketAddr>)>,
    /// What becomes of the filter.
    pub filter: FilterConfig,
    /// The compiled filter; none: the one of `make build`.
    pub wasm: Option<PathBuf>,
    /// The number of worker threads.
    pub concurrency: u32,
    /// Envoy's log level, perhaps with components: `info`, `warning,wasm:debug`.
    pub log_level: String,
    /// How long a replaced listener goes on serving.
    pub drain_time: Duration,
    /// Whether a drain asks all clients to go at once, rather than more and more of them until it ends.
    pub drain_at_once: bool,
    /// A last change to the configuration.
    pub edit: Option<Edit>,
    /// What starts Envoy.
    pub launcher: Launcher,
    /// Whether Envoy may outlive this process.
    pub lifetime: Lifetime,
}

impl fmt::Debug for EnvoyOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EnvoyOptions").field("name", &self.name).finish_non_exhaustive()
    }
}

impl EnvoyOptions {
    /// The shipped configuration and filter on free ports with one worker, and no cluster yet.
    pub fn new(run_dir: impl Into<PathBuf>) -> Self {
        Self {
            run_dir: run_dir.into(),
            name: "envoy".into(),
            config: None,
            port: None,
            admin_port: None,
            clusters: Vec::new(),
            filter: FilterConfig::default(),
            wasm: None,
            concurrency: 1,
            log_level: "info".into(),
            drain_time: Duration::from_secs(2),
            drain_at_once: false,
            edit: None,
            launcher: Launcher::default(),
            lifetime: Lifetime::default(),
        }
    }

    /// Adds a cluster.
    #[must_use]
    pub fn cluster(mut self, name: &str, endpoints: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.clusters.push((name.into(), endpoints.into_iter().collect()));
        self
    }

    /// Adds the cluster `es` with all nodes and one cluster per node, named like it.
    #[must_use]
    pub fn in_front_of(self, nodes: &Cluster) -> Self {
        let all = self.cluster("es", nodes.addresses().map(|(_, address)| address));
        nodes.addresses().fold(all, |options, (name, address)| options.cluster(name, [address]))
    }

    /// Sets the last change to the configuration.
    #[must_use]
    pub fn edit(mut self, edit: impl FnOnce(&mut Value) -> Result<()> + Send + 'static) -> Self {
        self.edit = Some(Box::new(edit));
        self
    }

    /// Writes the configuration; returns its path.
    fn write_config(&mut self, tools: &Tools, port: u16, admin_port: u16) -> Result<PathBuf> {
        let shipped = self.config.clone().unwrap_or_else(|| tools.envoy_yaml());
        let mut config = Config::read(&shipped)?;
        config.set_ports(port, admin_port)?;
        config.set_clusters(&self.clusters)?;
        config.set_filter(&self.filter, || {
            let wasm = match &self.wasm {
                Some(wasm) => wasm,
                None => tools.wasm()?,
            };
            let wasm = wasm.canonicalize().with_context(|| format!("no filter at {}", wasm.display()))?;
            Ok(wasm.display().to_string())
        })?;
        if let Some(edit) = self.edit.take() {
            edit(&mut config.0)?;
        }
        fs::create_dir_all(&self.run_dir).with_context(|| format!("cannot create {}", self.run_dir.display()))?;
        let path = self.run_dir.join(format!("{}.json", self.name));
        fs::write(&path, serde_json::to_vec_pretty(&config.0)?)?;
        Ok(path)
    }
}

/// A running Envoy. Dropping it kills it.
#[derive(Debug)]
pub struct Envoy {
    process: Process,
    port: u16,
    admin_port: u16,
    client: Client,
}

impl Envoy {
    /// Starts Envoy and returns when it is ready to serve.
    pub async fn start(tools: &Tools, mut options: EnvoyOptions) -> Result<Self> {
        let port = options.port.map_or_else(port::free, Ok)?;
        let admin_port = options.admin_port.map_or_else(port::free, Ok)?;
        for port in [port, admin_port] {
            port::ensure_free(port)?;
        }
        let config = options.write_config(tools, port, admin_port)?;
        Self::launch(tools, &config, port, admin_port, options).await
    }

    /// Starts Envoy with a file as it stands. The options have to say which ports it names; what they say of clusters and
    /// of the filter does not count.
    pub async fn start_file(tools: &Tools, file: &Path, options: EnvoyOptions) -> Result<Self> {
        let port = options.port.context("the listener's port is not known")?;
        let admin_port = options.admin_port.context("the port of the administration interface is not known")?;
        for port in [port, admin_port] {
            port::ensure_free(port)?;
        }
        Self::launch(tools, file, port, admin_port, options).await
    }

    async fn launch(tools: &Tools, config: &Path, port: u16, admin_port: u16, options: EnvoyOptions) -> Result<Self> {
        let mut command = with_config(options.launcher.command(tools, &options.run_dir)?, tools, config);
        command
            .args(["--concurrency", &options.concurrency.to_string()])
            .args(["--log-level", options.log_level.split(',').next().unwrap_or("info")])
            .args(["--drain-time-s", &options.drain_time.as_secs().to_string()])
            .args(["--drain-strategy", if options.drain_at_once { "immediate" } else { "gradual" }]);
        if let Some((_, components)) = options.log_level.split_once(',') {
            command.args(["--component-log-level", components]);
        }
        let log = options.run_dir.join(format!("{}.log", options.name));
        let process = Process::start(&options.name, command, &log, options.lifetime)?;
        let envoy = Self { process, port, admin_port, client: Client::new() };
        envoy.wait_ready().await?;
        Ok(envoy)
    }

    /// Lets Envoy itself check the configuration, with the filter's, and starts nothing.
    pub async fn validate(tools: &Tools, mut options: EnvoyOptions) -> Result<()> {
        let config = options.write_config(tools, port::free()?, port::free()?)?;
        Self::validate_file(tools, &config).await
    }

    /// Lets Envoy itself check a file as it stands.
    pub async fn validate_file(tools: &Tools, file: &Path) -> Result<()> {
        let mut command = with_config(Command::new(&tools.envoy), tools, file);
        command.args(["--mode", "validate"]);
        let Output { status, stdout, stderr } = tokio::process::Command::from(command).output().await?;
        if !status.success() {
            bail!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        }
        Ok(())
    }

    /// The listener's address.
    pub fn addr(&self) -> SocketAddr {
        port::loopback(self.port)
    }

    /// The URL of a path (`/…`) at the listener.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr())
    }

    /// Where it is administered.
    pub fn admin(&self) -> SocketAddr {
        port::loopback(self.admin_port)
    }

    /// The URL of a path (`/…`) at the administration interface.
    pub fn admin_url(&self, path: &str) -> String {
        format!("http://{}{path}", port::loopback(self.admin_port))
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Everything that Envoy logged so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// All counters and gauges by full name, labels included: `wasmcustom.….upstream.es-0`.
    pub async fn stats(&self) -> Result<BTreeMap<String, u64>> {
        self.stats_with("").await
    }

    /// Those of [`Envoy::stats`] whose names match a regular expression somewhere.
    pub async fn stats_with(&self, regex: &str) -> Result<BTreeMap<String, u64>> {
        let answer = self.client.get_json(&self.admin_url(&format!("/stats?format=json&filter={regex}"))).await?;
        let stats = answer.get("stats").and_then(Value::as_array).context("Envoy gave no statistics")?;
        let number = |stat: &Value| Some((stat.get("name")?.as_str()?.to_owned(), stat.get("value")?.as_u64()?));
        Ok(stats.iter().filter_map(number).collect())
    }

    /// One counter or gauge by its full name; 0 if Envoy does not know it (yet).
    pub async fn counter(&self, name: &str) -> Result<u64> {
        Ok(self.stats().await?.get(name).copied().unwrap_or(0))
    }

    /// How many connections Envoy has to this endpoint, over all its clusters.
    pub async fn connections_to(&self, endpoint: SocketAddr) -> Result<u64> {
        let answer = self.client.get(&self.admin_url("/clusters")).await?;
        // A line for each of them, such as `es::127.0.0.1:9200::cx_active::1`.
        let name = format!("::{endpoint}::cx_active::");
        let numbers: Vec<u64> =
            answer.text().lines().filter_map(|line| line.split_once(&name)?.1.parse().ok()).collect();
        ensure!(!numbers.is_empty(), "Envoy does not know {endpoint}");
        Ok(numbers.iter().sum())
    }

    /// Stops the process in its tracks (SIGSTOP).
    pub fn pause(&self) -> Result<()> {
        self.process.signal(Signal::STOP)
    }

    /// Lets a paused Envoy go on.
    pub fn resume(&self) -> Result<()> {
        self.process.signal(Signal::CONT)
    }

    /// Ends Envoy.
    pub async fn stop(self) -> Result<()> {
        self.process.stop().await
    }

    /// Lets go of an Envoy that was started with [`Lifetime::Independent`].
    pub fn leave_running(self) {
        self.process.leave_running();
    }

    async fn wait_ready(&self) -> Result<()> {
        let url = self.admin_url("/ready");
        let client = self.client.with_timeout(Duration::from_secs(5));
        wait::until(START_LIMIT, "Envoy is not ready", async || {
            self.process.ensure_running()?;
            Ok(client.get(&url).await.and_then(|response| response.ok()).ok())
        })
        .await
        .map(|_| ())
        .map_err(|error| match self.process.exit_status() {
            Ok(None) => error.context(self.process.log_extract()),
            _ => error,
        })
    }
}

/// Envoys on one machine find each other by a shared-memory region meant for hot restarts; ours need no restart.
fn with_config(mut command: Command, tools: &Tools, config: &Path) -> Command {
    command.arg("--disable-hot-restart").arg("-c").arg(config).current_dir(&tools.root);
    command
}
