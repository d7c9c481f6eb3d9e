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

/// A final change to the configuration.
type Edit = Box<dyn FnOnce(&mut Value) -> Result<()> + Send>;

/// The options of an Envoy.
pub struct EnvoyOptions {
    /// The folder for the configuration and the log: `<name>.json` and `<name>.log`.
    pub run_dir: PathBuf,
    /// The name, unique among the Envoys in a folder.
    pub name: String,
    /// The base configuration; the shipped `envoy/envoy.yaml` if `None`.
    pub config: Option<PathBuf>,
    /// The listener's port; a free port if `None`.
    pub port: Option<u16>,
    /// The port of the administration interface; a free port if `None`.
    pub admin_port: Option<u16>,
    /// The clusters by name, each with its endpoints. Other clusters of the file are removed.
    pub clusters: Vec<(String, Vec<SocketAddr>)>,
    /// The filter in the configuration.
    pub filter: FilterConfig,
    /// The compiled filter; the one of `make build` if `None`.
    pub wasm: Option<PathBuf>,
    /// The number of worker threads.
    pub concurrency: u32,
    /// Envoy's log level, optionally with components: `info`, `warning,wasm:debug`.
    pub log_level: String,
    /// The time for which a replaced listener continues to serve.
    pub drain_time: Duration,
    /// Whether a drain asks all clients at once to disconnect, rather than gradually more of them until it ends.
    pub drain_at_once: bool,
    /// A final change to the configuration.
    pub edit: Option<Edit>,
    /// The program that starts Envoy.
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
    /// Returns the default options: the shipped configuration and filter, free ports, one worker and no clusters.
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

    /// Adds the cluster `es` with all nodes, and a cluster for each node with the node's name.
    #[must_use]
    pub fn in_front_of(self, nodes: &Cluster) -> Self {
        let all = self.cluster("es", nodes.addresses().map(|(_, address)| address));
        nodes.addresses().fold(all, |options, (name, address)| options.cluster(name, [address]))
    }

    /// Sets the final change to the configuration.
    #[must_use]
    pub fn edit(mut self, edit: impl FnOnce(&mut Value) -> Result<()> + Send + 'static) -> Self {
        self.edit = Some(Box::new(edit));
        self
    }

    /// Writes the configuration and returns its path.
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

    /// Starts Envoy with an unchanged file. The options must have the file's ports; their clusters and filter are
    /// ignored.
    pub async fn start_file(tools: &Tools, file: &Path, options: EnvoyOptions) -> Result<Self> {
        let port = options.port.context("the options have no port for the listener: set the port of the file")?;
        let admin_port =
            options.admin_port.context("the options have no administration port: set the port of the file")?;
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

    /// Validates the configuration, including the filter's, with `envoy --mode validate`.
    pub async fn validate(tools: &Tools, mut options: EnvoyOptions) -> Result<()> {
        let config = options.write_config(tools, port::free()?, port::free()?)?;
        Self::validate_file(tools, &config).await
    }

    /// Validates an unchanged file with `envoy --mode validate`.
    pub async fn validate_file(tools: &Tools, file: &Path) -> Result<()> {
        let mut command = with_config(Command::new(&tools.envoy), tools, file);
        command.args(["--mode", "validate"]);
        let Output { status, stdout, stderr } = tokio::process::Command::from(command).output().await?;
        if !status.success() {
            bail!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        }
        Ok(())
    }

    /// Returns the listener's address.
    pub fn addr(&self) -> SocketAddr {
        port::loopback(self.port)
    }

    /// Returns the URL of a path (`/…`) at the listener.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr())
    }

    /// Returns the address of the administration interface.
    pub fn admin(&self) -> SocketAddr {
        port::loopback(self.admin_port)
    }

    /// Returns the URL of a path (`/…`) at the administration interface.
    pub fn admin_url(&self, path: &str) -> String {
        format!("http://{}{path}", port::loopback(self.admin_port))
    }

    /// Returns Envoy's process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Returns everything that Envoy has logged so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Returns all counters and gauges by full name, labels included: `wasmcustom.….upstream.es-0`.
    pub async fn stats(&self) -> Result<BTreeMap<String, u64>> {
        self.stats_with("").await
    }

    /// Returns the counters and gauges whose names contain a match of a regular expression.
    pub async fn stats_with(&self, regex: &str) -> Result<BTreeMap<String, u64>> {
        let answer = self.client.get_json(&self.admin_url(&format!("/stats?format=json&filter={regex}"))).await?;
        let stats = answer.get("stats").and_then(Value::as_array).context("Envoy gave no statistics")?;
        let number = |stat: &Value| Some((stat.get("name")?.as_str()?.to_owned(), stat.get("value")?.as_u64()?));
        Ok(stats.iter().filter_map(number).collect())
    }

    /// Returns a counter or gauge by its full name; 0 if it does not exist (yet).
    pub async fn counter(&self, name: &str) -> Result<u64> {
        Ok(self.stats().await?.get(name).copied().unwrap_or(0))
    }

    /// Returns the number of Envoy's connections to an endpoint, over all its clusters.
    pub async fn connections_to(&self, endpoint: SocketAddr) -> Result<u64> {
        let answer = self.client.get(&self.admin_url("/clusters")).await?;
        // The answer has a line for each cluster, such as `es::127.0.0.1:9200::cx_active::1`.
        let name = format!("::{endpoint}::cx_active::");
        let numbers: Vec<u64> =
            answer.text().lines().filter_map(|line| line.split_once(&name)?.1.parse().ok()).collect();
        ensure!(!numbers.is_empty(), "Envoy has no endpoint {endpoint}");
        Ok(numbers.iter().sum())
    }

    /// Pauses Envoy (SIGSTOP).
    pub fn pause(&self) -> Result<()> {
        self.process.signal(Signal::STOP)
    }

    /// Resumes a paused Envoy.
    pub fn resume(&self) -> Result<()> {
        self.process.signal(Signal::CONT)
    }

    /// Stops Envoy.
    pub async fn stop(self) -> Result<()> {
        self.process.stop().await
    }

    /// Releases an Envoy that was started with [`Lifetime::Independent`], which continues to run.
    pub fn leave_running(self) {
        self.process.leave_running();
    }

    async fn wait_ready(&self) -> Result<()> {
        let url = self.admin_url("/ready");
        let client = self.client.with_timeout(Duration::from_secs(5));
        wait::until(START_LIMIT, "Envoy is ready", async || {
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

/// Adds the configuration to a command. Hot restart is off, because Envoys on one machine share its memory region.
fn with_config(mut command: Command, tools: &Tools, config: &Path) -> Command {
    command.arg("--disable-hot-restart").arg("-c").arg(config).current_dir(&tools.root);
    command
}
