//! One search node: its configuration and the command that starts it.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::account::Account;
use crate::cluster::{ClusterOptions, Profile};
use crate::distribution::{Distribution, Launch, Product};
use crate::port;
use crate::process::{Process, limit_to};
use crate::workspace::Workspace;

/// The logging configuration: log to standard output only, which is redirected to the node's log file.
const LOGGING: &str = "\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}] [%node_name]%marker %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
";

/// The flags of the servers' own start scripts, except heap and collector (`config/jvm.options`, `bin/opensearch-env`).
const JVM_FLAGS: &[&str] = &[
    "-Xss1m",
    "-Xshare:auto",
    // Creates no files in /tmp.
    "-XX:-UsePerfData",
    "-XX:-OmitStackTraceInFastThrow",
    "-Dfile.encoding=UTF-8",
    "-Djava.awt.headless=true",
    "-Djava.locale.providers=SPI,COMPAT",
    "-Djna.nosys=true",
    "-Dio.netty.allocator.numDirectArenas=0",
    "-Dio.netty.noKeySetOptimization=true",
    "-Dio.netty.noUnsafe=true",
    "-Dio.netty.recycler.maxCapacityPerThread=0",
    "-Dlog4j.shutdownHookEnabled=false",
    "-Dlog4j2.disable.jmx=true",
];

/// The flags of a launcher, which starts another process and then does little.
const LAUNCHER_FLAGS: &[&str] =
    &["-Xms4m", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"];

/// A node of a cluster. Its process can end and restart; its name, ports and folders stay the same.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    index: usize,
    pub(crate) http: SocketAddr,
    /// The HTTP address that the node tells others, if that is not its own.
    published: Option<SocketAddr>,
    pub(crate) transport_port: u16,
    pub(crate) process: Option<Process>,
    folder: PathBuf,
    data: PathBuf,
    log: PathBuf,
}

/// Returns the name of the node at an index.
pub(crate) fn name(index: usize) -> String {
    format!("es-{index}")
}

impl Node {
    /// Creates the node's folders and replaces those of an earlier run. The node has no settings yet.
    pub(crate) fn prepare(
        index: usize,
        http: SocketAddr,
        transport_port: u16,
        workspace: &Workspace,
        options: &ClusterOptions,
    ) -> Result<Self> {
        let name = name(index);
        let (folder, data) = (workspace.nodes.join(&name), workspace.data_of(&name));
        for folder in [&folder, &data] {
            if folder.exists() {
                fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
            }
        }
        for part in ["config", "logs", "tmp"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::create_dir_all(&data)?;
        let config = folder.join("config");
        if options.distribution.launch() != Launch::Direct {
            let flags = [options.jvm_flags().join("\n"), "-Djava.io.tmpdir=${ES_TMPDIR}\n".into()].join("\n");
            fs::write(config.join("jvm.options"), flags)?;
        }
        fs::write(config.join("log4j2.properties"), LOGGING)?;
        for (path, text) in options.security.iter().filter_map(|security| security.files.get(index)).flatten() {
            let path = config.join(path);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        for folder in [&folder, &data] {
            Account::of_nodes().own(folder)?;
        }
        let log = options.run_dir.join(format!("{name}.log"));
        Ok(Self { name, index, http, published: None, transport_port, process: None, folder, data, log })
    }

    /// Sets the HTTP address that the node tells others.
    pub(crate) fn publish(&mut self, address: Option<SocketAddr>) {
        self.published = address;
    }

    /// Writes the node's settings. It finds the cluster at these transport ports. The managers are those of the first
    /// election, if the node takes part in it.
    pub(crate) fn configure(&self, seeds: &[u16], managers: &[String], options: &ClusterOptions) -> Result<()> {
        let mut settings = self.settings(options.distribution, seeds);
        if !managers.is_empty() {
            settings.insert(options.distribution.initial_managers().into(), json!(managers));
        }
        if let Some(published) = self.published {
            settings.insert("http.publish_host".into(), published.ip().to_string().into());
            settings.insert("http.publish_port".into(), published.port().into());
        }
        settings.extend(options.settings.clone());
        // JSON is valid YAML.
        let file = self.folder.join("config").join(options.distribution.product().settings_file);
        fs::write(&file, Value::Object(settings).to_string())?;
        Account::of_nodes().own(&file)
    }

    /// Starts the node's process and returns at once.
    pub(crate) fn start(&mut self, workspace: &Workspace, options: &ClusterOptions) -> Result<()> {
        port::ensure_free_at(self.http)?;
        let mut command = match options.distribution.launch() {
            Launch::Direct => self.server(workspace, options),
            Launch::Launcher => self.launcher(workspace, options),
            Launch::PreparingLauncher => self.preparing_launcher(workspace),
        };
        Account::of_nodes().apply(&mut command);
        if !options.processors.is_empty() {
            limit_to(&mut command, &options.processors);
        }
        self.process = Some(Process::start(&self.name, command, &self.log, options.lifetime)?);
        Ok(())
    }

    fn server(&self, workspace: &Workspace, options: &ClusterOptions) -> Command {
        let product = options.distribution.product();
        let mut command = java(workspace);
        command
            .args(options.jvm_flags())
            .args(JVM_FLAGS)
            .args(options.distribution.flags())
            .args(options.permissive(&workspace.server))
            .args(options.distribution.agent().map(|agent| flag("-javaagent:", &workspace.server.join(agent))))
            .args(self.folders(product, workspace))
            .arg(self.temporary_files())
            .arg(flag("-XX:ErrorFile=", &self.folder.join("logs/jvm_error.log")))
            .arg("-cp")
            .arg(workspace.server.join("lib/*"))
            .arg(product.main_class)
            // Elasticsearch 7.17 does not start without this folder.
            .env("LIBFFI_TMPDIR", self.folder.join("tmp"))
            .current_dir(&self.folder);
        command
    }

    /// Returns the command that `bin/elasticsearch` runs. The launcher reads the server's flags from `jvm.options`.
    fn launcher(&self, workspace: &Workspace, options: &ClusterOptions) -> Command {
        let mut command = java(workspace);
        command
            .args(LAUNCHER_FLAGS)
            .arg(self.temporary_files())
            .args(options.distribution.flags())
            .args(self.folders(options.distribution.product(), workspace))
            .args(["-Dcli.name=server", "-Dcli.script=bin/elasticsearch", "-Dcli.libs=lib/tools/server-cli"])
            .args(["-Des.java.type=ES_JAVA_HOME", "-cp", "lib/*:lib/cli-launcher/*"])
            .arg("org.elasticsearch.launcher.CliToolLauncher")
            .env("ES_TMPDIR", self.folder.join("tmp"))
            // The launcher uses the current folder as the server's folder.
            .current_dir(&workspace.server);
        command
    }

    /// Returns the command that `bin/elasticsearch` runs since Elasticsearch 9.4.
    fn preparing_launcher(&self, workspace: &Workspace) -> Command {
        // The launcher divides the flags of its own child at spaces.
        let temporary_files = self.temporary_files().into_string().ok().filter(|flag| !flag.contains(' '));
        let flags: Vec<_> = LAUNCHER_FLAGS.iter().copied().chain(temporary_files.as_deref()).collect();
        let mut command = java(workspace);
        command
            .args(LAUNCHER_FLAGS)
            .args(["-cp", "lib/tools/server-launcher/*", "org.elasticsearch.server.launcher.ServerLauncher"])
            .env("JAVA", workspace.java.join("bin/java"))
            .env("JAVA_TYPE", "ES_JAVA_HOME")
            .env("ES_JAVA_HOME", &workspace.java)
            .env("CLI_JAVA_OPTS", flags.join(" "))
            .env("ES_HOME", &workspace.server)
            .env("ES_PATH_CONF", self.folder.join("config"))
            .env("ES_DISTRIBUTION_TYPE", "zip")
            .env("ES_TMPDIR", self.folder.join("tmp"))
            .current_dir(&workspace.server);
        command
    }

    /// Returns the flag for the folder of temporary files. Without it, each start leaves a folder in /tmp.
    fn temporary_files(&self) -> OsString {
        flag("-Djava.io.tmpdir=", &self.folder.join("tmp"))
    }

    fn folders(&self, product: Product, workspace: &Workspace) -> [OsString; 2] {
        let property = |name: &str, folder: &Path| flag(&format!("-D{}.path.{name}=", product.prefix), folder);
        [property("home", &workspace.server), property("conf", &self.folder.join("config"))]
    }

    fn settings(&self, distribution: Distribution, seeds: &[u16]) -> Map<String, Value> {
        let seeds: Vec<String> = seeds.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let settings = json!({
            "cluster.name": "bulk-reshuffle",
            "node.name": self.name,
            "node.attr.zone": format!("z{}", self.index),
            "path.data": self.data,
            "path.logs": self.folder.join("logs"),
            // On loopback the server also skips the checks of the machine's limits.
            "network.host": "127.0.0.1",
            "http.host": self.http.ip().to_string(),
            "http.port": self.http.port(),
            "transport.port": self.transport_port,
            "discovery.seed_hosts": seeds,
            // A developer's disk may be nearly full.
            "cluster.routing.allocation.disk.threshold_enabled": false,
        });
        let mut settings = match settings {
            Value::Object(settings) => settings,
            _ => Map::new(),
        };
        settings.extend(distribution.settings().iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
        settings
    }
}

fn java(workspace: &Workspace) -> Command {
    let mut command = Command::new(workspace.java.join("bin/java"));
    // The node must not inherit the caller's environment.
    command.env_clear().env("LANG", "C.UTF-8");
    command
}

fn flag(name: &str, path: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(path);
    flag
}

impl ClusterOptions {
    /// Returns the flag that replaces the server's security manager by one that permits everything. With the server's
    /// own, the nodes of OpenSearch 2 take an eighth more processor time for the same tests. The folder of its class is
    /// missing for servers that have no security manager.
    fn permissive(&self, server: &Path) -> Option<OsString> {
        let classes = server.join("permissive");
        (self.profile != Profile::Throughput && classes.is_dir()).then(|| flag("-Xbootclasspath/a:", &classes))
    }

    /// Returns the flags for heap, compilers and collector.
    fn jvm_flags(&self) -> Vec<String> {
        let heap = match self.profile {
            Profile::Fast => self.distribution.least_heap(),
            Profile::Large => 768,
            Profile::Throughput => 512,
        };
        let sizes = [format!("-Xms{heap}m"), format!("-Xmx{heap}m"), format!("-XX:MaxDirectMemorySize={}m", heap / 2)];
        let fixed: &[&str] = match self.profile {
            // Without verification of the classes, a node of OpenSearch 2 starts with 4.5 instead of 5.7 s of processor
            // time. The checksums of the servers' archives are verified when they are fetched.
            Profile::Fast => &[
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-XX:-AlwaysPreTouch",
                "-XX:+UnlockDiagnosticVMOptions",
                "-XX:-BytecodeVerificationRemote",
            ],
            Profile::Large => &["-XX:+UseG1GC", "-XX:TieredStopAtLevel=1"],
            Profile::Throughput => {
                &["-XX:+UseG1GC", "-XX:G1ReservePercent=25", "-XX:InitiatingHeapOccupancyPercent=30"]
            }
        };
        sizes.into_iter().chain(fixed.iter().map(|flag| (*flag).to_owned())).collect()
    }
}
