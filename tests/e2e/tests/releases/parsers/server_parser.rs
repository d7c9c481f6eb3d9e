use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use bulk_reshuffle_stack::{Distribution, Tools};
use serde::Deserialize;

use super::grammar::Query;

/// A process that reads bodies as one release does: `BulkParser.java` on the jars of that release.
#[derive(Debug)]
pub struct ServerParser {
    pub release: Distribution,
    process: Child,
    bodies: BufWriter<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// What a release makes of a body.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Accepted { operations: Vec<Operation> },
    Refused { status: u16, reason: String },
}

/// An operation as a release's own parser understands it. Without a version `version` is -3, or -4 for `create`, and
/// without a sequence number `if_seq_no` is -2.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Operation {
    pub action: String,
    pub index: Option<String>,
    pub id: Option<String>,
    pub routing: Option<String>,
    pub pipeline: Option<String>,
    version: i64,
    version_type: String,
    if_seq_no: i64,
    if_primary_term: i64,
    require_alias: Option<bool>,
    require_data_stream: Option<bool>,
    retry_on_conflict: Option<i32>,
    dynamic_templates: Option<String>,
    /// The checksum of the source.
    source: Option<u32>,
}

impl ServerParser {
    /// Compiles the program into a folder, for all releases.
    pub fn compile(tools: &Tools, classes: &Path) -> Result<()> {
        let source = tools.root.join("tests/e2e/tests/releases/parsers/BulkParser.java");
        let compiler = tools.folder("ecj")?.join("ecj-3.40.0.jar");
        let mut java = Command::new(tools.java.join("bin/java"));
        let status = java.arg("-jar").arg(compiler).args(["-21", "-d"]).args([classes, &source]).status()?;
        ensure!(status.success(), "{} does not compile", source.display());
        Ok(())
    }

    /// Starts the program with the jars of a release.
    pub fn start(tools: &Tools, classes: &Path, release: Distribution) -> Result<Self> {
        let class_path = format!("{}:{}/lib/*", classes.display(), tools.server(release)?.display());
        let mut process = Command::new(tools.java.join("bin/java"))
            // Refusals are frequent, and no test reads their stack traces.
            .args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:-StackTraceInThrowable"])
            .args(["-Dlog4j2.level=OFF", "-Dlog4j2.disable.jmx=true", "-Dlog4j2.StatusLogger.level=OFF"])
            .args(["-cp", &class_path, "BulkParser"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("Java does not start")?;
        let bodies = BufWriter::new(process.stdin.take().context("its input is piped")?);
        let answers = BufReader::new(process.stdout.take().context("its output is piped")?);
        Ok(Self { release, process, bodies, answers })
    }

    /// Returns what the release makes of each body.
    pub fn read(&mut self, bodies: &[(Query, &[u8])]) -> Result<Vec<Outcome>> {
        let (to, from) = (&mut self.bodies, &mut self.answers);
        // Both pipes would fill up otherwise.
        thread::scope(|scope| {
            let writing = scope.spawn(move || {
                bodies.iter().try_for_each(|(query, body)| send(to, *query, body)).and_then(|()| to.flush())
            });
            let outcomes: Result<Vec<_>> = bodies.iter().map(|_| receive(from)).collect();
            writing.join().expect("the thread ends")?;
            outcomes
        })
        .with_context(|| format!("the parser of {}", self.release.title()))
    }
}

impl Drop for ServerParser {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn send(to: &mut impl Write, query: Query, body: &[u8]) -> std::io::Result<()> {
    to.write_all(&(body.len() as u32).to_be_bytes())?;
    to.write_all(&[bits(query)])?;
    to.write_all(body)
}

fn bits(query: Query) -> u8 {
    let given = [query.index.is_some(), query.routing.is_some(), query.pipeline.is_some(), query.require_alias];
    given.iter().rev().fold(0, |bits, given| bits << 1 | u8::from(*given))
}

fn receive(from: &mut impl BufRead) -> Result<Outcome> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        bail!("has ended");
    }
    serde_json::from_str(&line).with_context(|| line)
}
