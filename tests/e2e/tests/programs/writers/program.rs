//! Writers whose programs registries have.

use std::fmt::Display;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{ExampleClients, UnpackedProgram, with};
use bulk_reshuffle_stack::{Lifetime, Process, Tools, wait};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::scene::Scene;
use super::writer::{Run, Writer};
use super::{otlp, zipkin};
use crate::execution::{self, LIMIT, bare};
use crate::{readme, shippers};

/// The number of log entries that programs get, enough for several requests of each.
pub const ENTRIES: usize = 2_000;

/// Runs a writer until it has written all documents to this URL. Returns the answers that the test itself received.
pub async fn run(writer: &Writer, scene: &Scene, url: &str) -> Result<Vec<Value>> {
    let place = Place { folder: tempfile::tempdir_in(scene.folder())?, tools: Tools::find()?, writer, scene, url };
    match &writer.run {
        Run::Requests(requests) => return requests.send(&scene.client, url).await,
        Run::Benchmark(benchmark) => benchmark.run(&place).await,
        Run::Filebeat(filebeat) => filebeat.run(&place).await,
        Run::Helper(language) => helper(language, &place).await,
        Run::Java(arguments) => java(arguments, &place).await,
        Run::Jaeger => otlp::jaeger(&place).await,
        Run::OtelCollector(signal) => otlp::collector(*signal, &place).await,
        Run::Pino => pino(&place).await,
        Run::Rsyslog => rsyslog(&place).await,
        Run::SyslogNg => syslog_ng(&place).await,
        Run::Telegraf(output) => telegraf(output, &place).await,
        Run::Zipkin => zipkin::run(&place).await,
    }?;
    Ok(Vec::new())
}

/// The surroundings of one run of a program.
pub struct Place<'a> {
    folder: TempDir,
    pub tools: Tools,
    writer: &'a Writer,
    pub scene: &'a Scene,
    /// The URL of the node or of Envoy.
    pub url: &'a str,
}

/// Returns a log entry.
fn entry(n: usize) -> Value {
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

    /// Writes a line for each document to a file, and returns its path.
    fn write_lines<T: Display>(&self, name: &str, line: impl Fn(usize) -> T) -> Result<String> {
        self.write(name, &(0..self.writer.documents()).map(|n| format!("{}\n", line(n))).collect::<String>())
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

    /// Starts a program that runs until it is stopped.
    pub fn start(&self, name: &str, command: Command) -> Result<Process> {
        Process::start(name, command, &self.folder().join(format!("{name}.log")), Lifetime::WithParent)
    }

    /// Starts a program, waits until all documents are indexed, and stops it.
    async fn run_until_written(&self, name: &str, command: Command) -> Result<()> {
        let process = self.start(name, command)?;
        self.wait_written(&process).await?;
        process.stop().await
    }

    /// Waits until all documents are indexed.
    pub async fn wait_written(&self, process: &Process) -> Result<()> {
        let waited = wait::until(LIMIT, "all documents are indexed", async || {
            process.ensure_running()?;
            let found = self.scene.count(&self.writer.targets).await?;
            Ok((found >= self.writer.documents()).then_some(()))
        });
        waited.await.with_context(|| process.log_extract())
    }

    /// Runs a program to its end.
    async fn run(&self, name: &str, command: Command) -> Result<()> {
        execution::run(name, command, Stdio::null()).await.map(drop)
    }
}

/// The settings of Filebeat that vary.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filebeat {
    /// Those of the parser of lines.
    parser: Map<String, Value>,
    /// Those of the output.
    output: Map<String, Value>,
}

impl Filebeat {
    async fn run(&self, place: &Place<'_>) -> Result<()> {
        let parser = with(json!({"target": "app"}), &self.parser);
        let config = json!({
            "filebeat.inputs": [{
                "type": "filestream", "id": "app", "paths": [place.write_lines("app.json", entry)?],
                "parsers": [{"ndjson": parser}],
            }],
            "setup.template": {"name": "filebeat-test", "pattern": "filebeat-test*"},
            "setup.ilm.enabled": false,
            "output.elasticsearch": with(json!({"hosts": [place.url], "index": "filebeat-test"}), &self.output),
        });
        // Filebeat rejects a configuration file that other users may write.
        let config = place.write("filebeat.yml", &config.to_string())?;
        fs::set_permissions(&config, fs::Permissions::from_mode(0o600))?;
        let mut command = bare(place.tools.folder("filebeat")?.join("filebeat"));
        command.args(["-e", "-c", &config, "--path.home"]).arg(place.folder());
        place.run_until_written("filebeat", command).await
    }
}

/// A benchmark, with a small workload of its own format.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Benchmark {
    tool: String,
    /// The module of Python and its first arguments; the folder of the workload comes next.
    command: Vec<String>,
    /// The name of the file with the workload.
    file: String,
}

impl Benchmark {
    async fn run(&self, place: &Place<'_>) -> Result<()> {
        let path = place.write_lines("documents.json", entry)?;
        let documents = json!({
            "source-file": "documents.json", "document-count": place.writer.documents(),
            "uncompressed-bytes": fs::metadata(path)?.len(), "target-index": "books",
        });
        let workload = json!({
            "version": 2, "description": "books", "indices": [{"name": "books"}],
            "corpora": [{"name": "books", "documents": [documents]}],
            "schedule": [{"operation": {"name": "index", "operation-type": "bulk", "bulk-size": 200}, "clients": 4}],
        });
        place.write(&self.file, &workload.to_string())?;
        let mut program = bare("python3");
        program
            .arg("-m")
            .args(&self.command)
            .arg(place.folder())
            .args(["--pipeline=benchmark-only", "--target-hosts", place.url.trim_start_matches("http://")])
            .args(["--client-options", "timeout:60", "--offline", "--on-error=abort"])
            .env("PYTHONPATH", place.tools.folder(&self.tool)?)
            .env("HOME", place.folder())
            .current_dir(place.folder());
        place.run(&self.tool, program).await
    }
}

async fn helper(language: &str, place: &Place<'_>) -> Result<()> {
    let clients = ExampleClients::new(&place.tools, place.folder(), env!("CARGO_TARGET_TMPDIR"))?;
    clients.write((0..place.writer.documents()).map(entry))?;
    let commands = readme::commands(&readme::folder("clients"));
    let command = commands.iter().find(|line| line.starts_with(&format!("{language} "))).context("no such command")?;
    place.run(language, clients.shell(command, place.url, None)?).await
}

async fn java(arguments: &[String], place: &Place<'_>) -> Result<()> {
    let (tool, arguments) = arguments.split_first().context("no tool")?;
    let (entries, documents) = (place.write_lines("entries.json", entry)?, place.writer.documents().to_string());
    let placeholders = [("<entries>", entries.as_str()), ("<documents>", &documents), ("<url>", place.url)];
    let filled = |argument: &String| {
        placeholders.iter().fold(argument.clone(), |argument, (name, value)| argument.replace(name, value))
    };
    let jars = place.tools.folder(tool)?;
    let mut command = place.java();
    command.arg("-cp").arg(format!("{0}:{0}/*", jars.display())).arg("WriteDocuments");
    // Spark listens on this address.
    command.args(arguments.iter().map(filled)).env("SPARK_LOCAL_IP", "127.0.0.1");
    place.run(tool, command).await
}

/// Runs pino-elasticsearch, which reads pino's lines from its input.
async fn pino(place: &Place<'_>) -> Result<()> {
    let line = |n| json!({"level": 30, "time": 1_795_000_000_000_u64 + n as u64, "pid": 1, "msg": format!("line {n}")});
    let entries = place.write_lines("app.json", line)?;
    let package = place.tools.folder("pino")?.join("node_modules/pino-elasticsearch/cli.js");
    let mut command = bare(place.tools.folder("node")?.join("bin/node"));
    command.arg(package).args(["--node", place.url]);
    execution::run("pino-elasticsearch", command, fs::File::open(entries)?.into()).await.map(drop)
}

/// Runs rsyslog with the configuration of the examples.
async fn rsyslog(place: &Place<'_>) -> Result<()> {
    let entries = place.write_lines("app.json", entry)?;
    let command = shippers::rsyslog::command(&place.tools, entries.as_ref(), place.folder(), place.url)?;
    let refused = || fs::read_to_string(place.folder().join("errors.json")).unwrap_or_default();
    place.run_until_written("rsyslogd", command).await.with_context(|| format!("refused requests: {:.2000}", refused()))
}

/// Runs syslog-ng with its own destination for Elasticsearch.
async fn syslog_ng(place: &Place<'_>) -> Result<()> {
    let entries = place.write_lines("app.log", entry)?;
    let syslog_ng = UnpackedProgram::find(&place.tools, "syslog-ng", "usr/sbin/syslog-ng", "syslog-ng/3.38")?;
    let include = syslog_ng.root().join("usr/share/syslog-ng/include");
    let include = include.to_str().context("the folder's name is not text")?;
    let config = place.write(
        "syslog-ng.conf",
        &format!(
            "@version: 3.38\n@define include-path \"{include}\"\n@define scl-root \"{include}/scl\"\n\
             @include \"scl/elasticsearch/elastic-http.conf\"\n\
             source entries {{ file(\"{entries}\" flags(no-parse) follow-freq(0.1)); }};\n\
             destination cluster {{ elasticsearch-http(url(\"{}/_bulk\") index(\"syslog-ng\") type(\"\")); }};\n\
             log {{ source(entries); destination(cluster); flags(flow-control); }};\n",
            place.url
        ),
    )?;
    let mut command = syslog_ng.command();
    command.args(["-F", "-e", "--no-caps", "-f", &config, "--module-path"]).arg(syslog_ng.modules());
    for (option, file) in [("-R", "state"), ("-c", "control"), ("-p", "pid")] {
        command.arg(option).arg(place.folder().join(file));
    }
    place.run_until_written("syslog-ng", command).await
}

/// Runs Telegraf with this output.
async fn telegraf(output: &str, place: &Place<'_>) -> Result<()> {
    let second = 1_795_435_200; // 2026-11-23T12:00:00Z
    let line = |n| format!("books,host=host-{} views={n}i {}000000000", n % 5, second + n);
    let entries = place.write_lines("metrics.influx", line)?;
    let config = format!(
        "[agent]\nomit_hostname = true\n{output}urls = [\"{}\"]\nmanage_template = true\ntemplate_name = \"telegraf\"\n\
         [[inputs.file]]\nfiles = [\"{entries}\"]\ndata_format = \"influx\"\n",
        place.url
    );
    let config = place.write("telegraf.conf", &config)?;
    let mut command = bare(place.tools.folder("telegraf")?.join("telegraf"));
    command.args(["--once", "--config", &config]).current_dir(place.folder());
    place.run("telegraf", command).await
}
