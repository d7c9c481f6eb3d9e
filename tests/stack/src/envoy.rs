//! Envoy with the project's configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::Value;

use crate::client::Client;
use crate::cluster::Cluster;
use crate::config::{Config, FilterConfig};
use crate::counters::{of_all_filters, of_filter};
use crate::launcher::Launcher;
use crate::port;
use crate::process::{Lifetime, Process};
use crate::shared_envoy::SharedEnvoy;
use crate::tools::Tools;
use crate::wait;

const START_LIMIT: Duration = Duration::from_secs(180);

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
    /// The time for which a replaced or removed listener continues to serve.
    pub drain_time: Duration,
    /// Whether a drain asks all clients at once to disconnect, rather than gradually more of them until it ends.
    pub drain_at_once: bool,
    /// Whether Envoy may be one that an earlier test has left: see [`shared`](Self::shared).
    pub is_shared: bool,
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
            is_shared: false,
            edit: None,
            launcher: Launcher::default(),
            lifetime: Lifetime::default(),
        }
    }

    fn settings(self) -> Settings {
        let Self { launcher, concurrency, log_level, drain_time, drain_at_once, .. } = self;
        Settings { launcher, concurrency, log_level, drain_time, drain_at_once }
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

    /// Permits an Envoy that an earlier test of this process has left. It starts in milliseconds, because it need not
    /// compile the module. Only tests whose subject is Envoy's process need one of their own. The folder and the name
    /// of the options are not used. Listeners end at once, so that the next test need not wait.
    #[must_use]
    pub fn shared(self) -> Self {
        Self { is_shared: true, drain_time: Duration::ZERO, ..self }
    }

    /// Returns the configuration with these ports of the listener and of the administration interface.
    fn build_config(&mut self, tools: &Tools, port: u16, admin_port: u16) -> Result<Config> {
        let shipped = self.config.clone().unwrap_or_else(|| tools.envoy_yaml());
        let mut config = Config::read(&shipped)?;
        config.set_port(port)?;
        config.set_admin_port(admin_port)?;
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
        Ok(config)
    }

    /// Writes the configuration and returns its path.
    fn write_config(&mut self, tools: &Tools, port: u16, admin_port: u16) -> Result<PathBuf> {
        let config = self.build_config(tools, port, admin_port)?;
        fs::create_dir_all(&self.run_dir).with_context(|| format!("cannot create {}", self.run_dir.display()))?;
        let path = self.run_dir.join(format!("{}.json", self.name));
        fs::write(&path, serde_json::to_vec_pretty(&config.0)?)?;
        Ok(path)
    }
}

/// The settings of an Envoy that are not in its configuration.
#[derive(Debug)]
pub(crate) struct Settings {
    launcher: Launcher,
    concurrency: u32,
    log_level: String,
    drain_time: Duration,
    drain_at_once: bool,
}

impl Settings {
    /// Returns the command that starts Envoy with this file. A launcher keeps its files in the folder.
    pub(crate) fn command(&self, tools: &Tools, folder: &Path, config: &Path) -> Result<Command> {
        let mut command = with_config(self.launcher.command(tools, folder)?, tools, config);
        command
            .args(["--concurrency", &self.concurrency.to_string()])
            .args(["--log-level", self.log_level.split(',').next().unwrap_or("info")])
            .args(["--drain-time-s", &self.drain_time.as_secs().to_string()])
            .args(["--drain-strategy", if self.drain_at_once { "immediate" } else { "gradual" }]);
        if let Some((_, components)) = self.log_level.split_once(',') {
            command.args(["--component-log-level", components]);
        }
        Ok(command)
    }
}

/// A running Envoy. Dropping it kills it, or leaves it to the next test if it is [shared](EnvoyOptions::shared).
#[derive(Debug)]
pub struct Envoy {
    process: Arc<Process>,
    /// The same Envoy, if it is shared.
    shared: Option<SharedEnvoy>,
    port: u16,
    admin_port: u16,
    /// The number of workers.
    concurrency: u32,
    client: Client,
    /// The length of the log at the start, in bytes.
    log_start: usize,
}

impl Drop for Envoy {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.give_back();
        }
    }
}

impl Envoy {
    /// Starts Envoy and returns when it is ready to serve.
    pub async fn start(tools: &Tools, mut options: EnvoyOptions) -> Result<Self> {
        let port = options.port.map_or_else(port::free, Ok)?;
        port::ensure_free(port)?;
        if options.is_shared {
            return Self::share(tools, options, port).await;
        }
        let admin_port = options.admin_port.map_or_else(port::free, Ok)?;
        port::ensure_free(admin_port)?;
        let config = options.write_config(tools, port, admin_port)?;
        Self::launch(tools, &config, port, admin_port, options).await
    }

    /// Waits until the filter knows the cluster state in every worker.
    pub async fn wait_for_state(&self, limit: Duration) -> Result<()> {
        self.wait_for_states(1, limit).await
    }

    /// Waits until the filter has adopted so many cluster states in every worker. Envoy's main thread has a VM too, which
    /// polls like the others, and gets no requests.
    pub async fn wait_for_states(&self, states: u64, limit: Duration) -> Result<()> {
        let all = states.saturating_mul(u64::from(self.concurrency).saturating_add(1));
        wait::until(limit, "every worker knows the cluster state", async || {
            Ok((self.state_loads().await? >= all).then_some(()))
        })
        .await
    }

    /// Returns how often a VM has adopted a new cluster state, by its own poll or from another VM.
    pub async fn state_loads(&self) -> Result<u64> {
        let mut loads = 0_u64;
        for kind in ["loads", "takeovers"] {
            loads = loads.saturating_add(self.counter(&format!("wasmcustom.bulk_reshuffle_state_{kind}_total")).await?);
        }
        Ok(loads)
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
        let log = options.run_dir.join(format!("{}.log", options.name));
        let (name, run_dir, lifetime) = (options.name.clone(), options.run_dir.clone(), options.lifetime);
        let concurrency = options.concurrency;
        let command = options.settings().command(tools, &run_dir, config)?;
        let process = Process::start(&name, command, &log, lifetime)?;
        wait_ready(&process, admin_port).await?;
        let process = Arc::new(process);
        Ok(Self { process, shared: None, port, admin_port, concurrency, client: Client::new(), log_start: 0 })
    }

    /// Gives a shared Envoy the listeners and clusters of these options.
    async fn share(tools: &Tools, mut options: EnvoyOptions, port: u16) -> Result<Self> {
        // The Envoy sets its own port of the administration interface.
        let mut config = options.build_config(tools, port, 0)?;
        config.keep_module()?;
        let resources = config.take_resources()?;
        let concurrency = options.concurrency;
        let shared = SharedEnvoy::take(tools, &options.settings(), config).await?;
        let (process, admin_port) = (Arc::clone(&shared.process), shared.admin_port);
        let log_start = process.log_length();
        let shared = Some(shared);
        let envoy = Self { process, shared, port, admin_port, concurrency, client: Client::new(), log_start };
        if let Some(shared) = &envoy.shared {
            shared.add(&resources).await?;
        }
        Ok(envoy)
    }

    /// Validates the configuration, including the filter's, with `envoy --mode validate`.
    pub async fn validate(tools: &Tools, mut options: EnvoyOptions) -> Result<()> {
        let config = options.write_config(tools, port::free()?, port::free()?)?;
        let mut command = with_config(Command::new(&tools.envoy), tools, &config);
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

    /// Returns everything that Envoy has logged so far; a shared Envoy, since it has these listeners.
    pub fn log(&self) -> String {
        self.process.log_since(self.log_start)
    }

    /// Returns the number of VMs that only keep the compiled module.
    pub fn kept_vms(&self) -> u64 {
        self.shared.as_ref().map_or(0, SharedEnvoy::own_vms)
    }

    /// Returns the file with the listeners of a shared Envoy, which reloads it when it is replaced.
    pub fn listener_file(&self) -> Result<PathBuf> {
        self.shared.as_ref().map(SharedEnvoy::listeners).context("only a shared Envoy has a file of listeners")
    }

    /// Returns all counters and gauges by full name, labels included: `wasmcustom.….upstream.es-0`. The filter's lose the
    /// label `coordinator`, and are added up over the filters of several search clusters.
    pub async fn stats(&self) -> Result<BTreeMap<String, u64>> {
        self.stats_with("").await
    }

    /// Returns those of [`stats`](Self::stats) whose names contain a match of a regular expression.
    pub async fn stats_with(&self, regex: &str) -> Result<BTreeMap<String, u64>> {
        Ok(of_all_filters(stats_with(&self.client, self.admin_port, regex).await?))
    }

    /// Returns the counters and gauges of the filter with this coordinator alone, without that label.
    pub async fn stats_of(&self, coordinator: &str) -> Result<BTreeMap<String, u64>> {
        Ok(of_filter(stats_with(&self.client, self.admin_port, "wasmcustom").await?, coordinator))
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

    /// Stops Envoy, or leaves a shared one to the next test.
    pub async fn stop(self) -> Result<()> {
        match self.shared {
            Some(_) => self.process.ensure_running(),
            None => self.process.stop().await,
        }
    }

    /// Releases an Envoy that was started with [`Lifetime::Independent`], which continues to run.
    pub fn leave_running(self) {
        self.process.leave_running();
    }
}

/// Waits until Envoy serves.
pub(crate) async fn wait_ready(process: &Process, admin_port: u16) -> Result<()> {
    let url = format!("http://{}/ready", port::loopback(admin_port));
    let client = Client::new().with_timeout(Duration::from_secs(5));
    wait::until(START_LIMIT, "Envoy is ready", async || {
        process.ensure_running()?;
        Ok(client.get(&url).await.and_then(|response| response.ok()).ok())
    })
    .await
    .map(|_| ())
    .map_err(|error| match process.exit_status() {
        Ok(None) => error.context(process.log_extract()),
        _ => error,
    })
}

/// Returns the counters and gauges whose names contain a match of a regular expression.
pub(crate) async fn stats_with(client: &Client, admin_port: u16, regex: &str) -> Result<BTreeMap<String, u64>> {
    let url = format!("http://{}/stats?format=json&filter={regex}", port::loopback(admin_port));
    let answer = client.get_json(&url).await?;
    let stats = answer.get("stats").and_then(Value::as_array).context("Envoy gave no statistics")?;
    let number = |stat: &Value| Some((stat.get("name")?.as_str()?.to_owned(), stat.get("value")?.as_u64()?));
    Ok(stats.iter().filter_map(number).collect())
}

/// Adds the configuration to a command. Hot restart is off, because Envoys on one machine share its memory region.
fn with_config(mut command: Command, tools: &Tools, config: &Path) -> Command {
    command.arg("--disable-hot-restart").arg("-c").arg(config).current_dir(&tools.root);
    command
}
