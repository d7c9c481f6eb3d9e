//! One search node: its configuration and the command that starts it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::account::Account;
use crate::opensearch::{ClusterOptions, Profile};
use crate::port;
use crate::process::Process;
use crate::workspace::Workspace;

/// Logs to the standard output only, which goes to the node's log file.
const LOGGING: &str = "\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}] [%node_name]%marker %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
";

/// What OpenSearch's own start script sets besides heap and collector (`config/jvm.options`, `bin/opensearch-env`).
const JVM_FLAGS: &[&str] = &[
    "-Xss1m",
    "-Xshare:auto",
    // Leaves nothing in /tmp.
    "-XX:-UsePerfData",
    "-XX:-OmitStackTraceInFastThrow",
    "-Dfile.encoding=UTF-8",
    "-Djava.awt.headless=true",
    "-Djava.locale.providers=SPI,COMPAT",
    "-Djava.security.manager=allow",
    "-Djna.nosys=true",
    "-Dio.netty.allocator.numDirectArenas=0",
    "-Dio.netty.noKeySetOptimization=true",
    "-Dio.netty.noUnsafe=true",
    "-Dio.netty.recycler.maxCapacityPerThread=0",
    "-Dlog4j.shutdownHookEnabled=false",
    "-Dlog4j2.disable.jmx=true",
    "-Dopensearch.bundled_jdk=false",
    "-Dopensearch.distribution.type=zip",
];

/// A node of a cluster. Its process comes and goes; name, ports and folders stay.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) http_port: u16,
    pub(crate) process: Option<Process>,
    folder: PathBuf,
    log: PathBuf,
}

/// The name of the node at the given place.
pub(crate) fn name(index: usize) -> String {
    format!("es-{index}")
}

impl Node {
    /// Makes the node's folders and configuration, in place of those of an earlier run.
    pub(crate) fn prepare(
        index: usize,
        http_port: u16,
        transport_ports: &[u16],
        workspace: &Workspace,
        options: &ClusterOptions,
    ) -> Result<Self> {
        let name = name(index);
        let folder = workspace.nodes.join(&name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        for part in ["config", "data", "logs", "tmp"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let mut settings = settings(index, &folder, http_port, transport_ports);
        settings.extend(options.settings.clone());
        // JSON is YAML.
        fs::write(folder.join("config/opensearch.yml"), Value::Object(settings).to_string())?;
        fs::write(folder.join("config/log4j2.properties"), LOGGING)?;
        Account::of_nodes().own(&folder)?;
        let log = options.run_dir.join(format!("{name}.log"));
        Ok(Self { name, http_port, process: None, folder, log })
    }

    /// Starts the node's process and returns at once.
    pub(crate) fn start(&mut self, workspace: &Workspace, options: &ClusterOptions) -> Result<()> {
        port::ensure_free(self.http_port)?;
        let mut command = Command::new(workspace.java.join("bin/java"));
        command
            .args(options.profile.jvm_flags())
            .args(JVM_FLAGS)
            .arg(flag("-Djava.io.tmpdir=", &self.folder.join("tmp")))
            .arg(flag("-XX:ErrorFile=", &self.folder.join("logs/jvm_error.log")))
            .arg(flag("-Dopensearch.path.home=", &workspace.opensearch))
            .arg(flag("-Dopensearch.path.conf=", &self.folder.join("config")))
            .arg("-cp")
            .arg(workspace.opensearch.join("lib/*"))
            .arg("org.opensearch.bootstrap.OpenSearch")
            .current_dir(&self.folder)
            // Nothing of the caller's environment is meant for the node.
            .env_clear()
            .env("LANG", "C.UTF-8");
        Account::of_nodes().apply(&mut command);
        self.process = Some(Process::start(&self.name, command, &self.log, options.lifetime)?);
        Ok(())
    }
}

fn settings(index: usize, folder: &Path, http_port: u16, transport_ports: &[u16]) -> Map<String, Value> {
    let nodes: Vec<String> = (0..transport_ports.len()).map(name).collect();
    let seeds: Vec<String> = transport_ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let settings = json!({
        "cluster.name": "bulk-reshuffle",
        "node.name": name(index),
        "node.attr.zone": format!("z{index}"),
        "path.data": folder.join("data"),
        "path.logs": folder.join("logs"),
        // On loopback OpenSearch also skips the checks of the machine's limits.
        "network.host": "127.0.0.1",
        "http.port": http_port,
        "transport.port": transport_ports.get(index),
        "discovery.seed_hosts": seeds,
        "cluster.initial_cluster_manager_nodes": nodes,
        // A developer's disk may be nearly full.
        "cluster.routing.allocation.disk.threshold_enabled": false,
    });
    match settings {
        Value::Object(settings) => settings,
        _ => Map::new(),
    }
}

fn flag(name: &str, path: &Path) -> std::ffi::OsString {
    let mut flag = std::ffi::OsString::from(name);
    flag.push(path);
    flag
}

impl Profile {
    fn jvm_flags(self) -> &'static [&'static str] {
        match self {
            Self::Fast => {
                &["-Xms256m", "-Xmx256m", "-XX:MaxDirectMemorySize=128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            }
            Self::Throughput => &[
                "-Xms512m",
                "-Xmx512m",
                "-XX:MaxDirectMemorySize=256m",
                "-XX:+UseG1GC",
                "-XX:G1ReservePercent=25",
                "-XX:InitiatingHeapOccupancyPercent=30",
            ],
        }
    }
}
