//! Writers whose programs registries have.

mod benchmark;
mod filebeat;
mod flink;
mod helpers;
mod jaeger;
mod otel_collector;
mod pino;
mod rsyslog;
mod spark;
mod syslog_ng;
mod telegraf;
mod zipkin;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use bulk_reshuffle_stack::{Lifetime, Process, Tools, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::scene::{LIMIT, Scene};
use crate::writer::Writer;

/// The number of log entries that programs get, enough for several requests of each.
pub const ENTRIES: usize = 2_000;

/// A program of a registry, in one configuration.
#[derive(Debug)]
pub enum Program {
    Benchmark(benchmark::Benchmark),
    Filebeat(filebeat::Configuration),
    Flink(flink::Connector),
    Jaeger,
    OtelCollector(otel_collector::Signal),
    Pino,
    Rsyslog,
    Spark(spark::Operation),
    SyslogNg,
    Telegraf(telegraf::Output),
    Zipkin,
    Helper(&'static str),
}

/// Returns all programs in all configurations.
pub fn all() -> Vec<Writer> {
    [
        filebeat::writers(),
        telegraf::writers(),
        otel_collector::writers(),
        jaeger::writers(),
        zipkin::writers(),
        rsyslog::writers(),
        syslog_ng::writers(),
        pino::writers(),
        spark::writers(),
        flink::writers(),
        benchmark::writers(),
        helpers::writers(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Program {
    /// Returns whether it is large, or must be compiled first.
    pub fn is_compiled(&self) -> bool {
        matches!(
            self,
            Self::Benchmark(_)
                | Self::Filebeat(_)
                | Self::Flink(_)
                | Self::Jaeger
                | Self::OtelCollector(_)
                | Self::Spark(_)
                | Self::Telegraf(_)
                | Self::Zipkin
        )
    }

    /// Runs the program until it has written all documents of the writer to this URL.
    pub async fn run(&self, writer: &Writer, scene: &Scene, url: &str) -> Result<()> {
        let place = Place { folder: tempfile::tempdir_in(scene.folder())?, tools: Tools::find()?, writer, scene, url };
        match self {
            Self::Benchmark(benchmark) => benchmark::run(*benchmark, &place).await,
            Self::Filebeat(configuration) => filebeat::run(*configuration, &place).await,
            Self::Flink(connector) => flink::run(*connector, &place).await,
            Self::Jaeger => jaeger::run(&place).await,
            Self::OtelCollector(signal) => otel_collector::run(*signal, &place).await,
            Self::Pino => pino::run(&place).await,
            Self::Rsyslog => rsyslog::run(&place).await,
            Self::Spark(operation) => spark::run(*operation, &place).await,
            Self::SyslogNg => syslog_ng::run(&place).await,
            Self::Telegraf(output) => telegraf::run(*output, &place).await,
            Self::Zipkin => zipkin::run(&place).await,
            Self::Helper(language) => helpers::run(language, &place).await,
        }
    }
}

/// The surroundings of one run of a program.
pub struct Place<'a> {
    pub folder: TempDir,
    pub tools: Tools,
    pub writer: &'a Writer,
    pub scene: &'a Scene,
    /// The URL of the node or of Envoy.
    pub url: &'a str,
}

/// Returns a log entry.
pub fn entry(n: usize) -> Value {
    json!({"id": format!("entry-{n}"), "n": n, "text": format!("line {n} of “app”")})
}

impl Place<'_> {
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file, and returns its path.
    pub fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.folder().join(name);
        fs::write(&path, text)?;
        Ok(path.to_str().context("the folder's name is not text")?.to_owned())
    }

    /// Writes all entries to a file, a line each, and returns its path.
    pub fn write_entries(&self, name: &str, line: impl Fn(usize) -> String) -> Result<String> {
        self.write(name, &(0..self.writer.documents).map(|n| line(n) + "\n").collect::<String>())
    }

    /// Returns the host and the port of the URL.
    pub fn authority(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Returns a command for Java that starts soon and takes little memory. Programs of older releases reach into these
    /// packages.
    pub fn java(&self) -> Command {
        let mut command = bare(self.tools.java.join("bin/java"));
        for package in ["io", "lang", "lang.invoke", "nio", "util"] {
            command.arg(format!("--add-opens=java.base/java.{package}=ALL-UNNAMED"));
        }
        command
            .args(["--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "-Xmx512m", "-XX:TieredStopAtLevel=1"])
            .arg(format!("-Djava.io.tmpdir={}", self.folder().display()))
            .current_dir(self.folder());
        command
    }

    /// Runs our program with a Java library to its end.
    pub async fn run_java(&self, tool: &str, arguments: &[&str]) -> Result<()> {
        let jars = self.tools.folder(tool)?;
        let mut command = self.java();
        command.arg("-cp").arg(format!("{0}:{0}/*", jars.display())).arg("WriteDocuments").args(arguments);
        // Spark listens on this address.
        command.env("SPARK_LOCAL_IP", "127.0.0.1");
        self.run_to_end(tool, command, Stdio::null()).await
    }

    /// Starts a program that runs until it is stopped.
    pub fn start(&self, name: &str, command: Command) -> Result<Process> {
        Process::start(name, command, &self.folder().join(format!("{name}.log")), Lifetime::WithParent)
    }

    /// Starts a program, waits until all documents are indexed, and stops it.
    pub async fn run_until_written(&self, name: &str, command: Command) -> Result<()> {
        let process = self.start(name, command)?;
        self.wait_written(&process).await?;
        process.stop().await
    }

    /// Waits until all documents are indexed.
    pub async fn wait_written(&self, process: &Process) -> Result<()> {
        let waited = wait::until(LIMIT, "all documents are indexed", async || {
            process.ensure_running()?;
            let found = self.scene.count(&self.writer.targets).await?;
            Ok((found >= self.writer.documents).then_some(()))
        });
        waited.await.with_context(|| process.log_extract())
    }

    /// Runs a program to its end.
    pub async fn run_to_end(&self, name: &str, command: Command, input: Stdio) -> Result<()> {
        let mut command = tokio::process::Command::from(command);
        command.stdin(input).kill_on_drop(true);
        let output =
            tokio::time::timeout(LIMIT, command.output()).await.with_context(|| format!("{name} timed out"))??;
        if !output.status.success() {
            let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            bail!("{name}: {}\n{printed}{errors}", output.status);
        }
        Ok(())
    }
}

/// Returns a command without the caller's environment, which may, for example, set a proxy.
pub fn bare(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}
