use std::fmt::Debug;

use anyhow::{Context, Result, bail, ensure};
use bulk_reshuffle_e2e::named_releases;
use bulk_reshuffle_stack::Distribution;
use serde::Deserialize;
use serde_json::Value;

use super::otlp::Signal;
use super::program::{self, Benchmark, ENTRIES, Filebeat};
use super::requests::{OPERATIONS, Requests};
use super::scene::Scene;
use super::target::Target;
use crate::counts::Counts;
use crate::documents::Document;

/// A writer in one configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writer {
    pub name: String,
    pub configuration: String,
    /// The releases that it supports.
    #[serde(deserialize_with = "named_releases")]
    pub on: Vec<Distribution>,
    pub targets: Vec<Target>,
    pub run: Run,
    /// The number of documents at the end; if absent, each entry or operation is one.
    documents: Option<usize>,
    /// Whether documents have the same ids in each run.
    #[serde(default)]
    has_ids: bool,
    /// JSON pointers to fields that differ between two runs of the program itself.
    #[serde(default)]
    volatile: Vec<String>,
}

/// The way to run a writer: the requests that its source produces, or its own program.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Run {
    Requests(Requests),
    Benchmark(Benchmark),
    Filebeat(Filebeat),
    /// The bulk helper of an example client. The text is the first word of its command.
    Helper(String),
    /// Our program with a Java library: the tool and the arguments, with placeholders.
    Java(Vec<String>),
    Jaeger,
    OtelCollector(Signal),
    Pino,
    Rsyslog,
    SyslogNg,
    /// The text is the configuration of the output.
    Telegraf(String),
    Zipkin,
}

impl Run {
    /// Returns whether its program is large, or must be compiled first.
    pub fn is_compiled(&self) -> bool {
        !matches!(self, Self::Requests(_) | Self::Helper(_) | Self::Pino | Self::Rsyslog | Self::SyslogNg)
    }
}

/// The state after a run.
#[derive(Debug)]
struct Written {
    answers: Vec<Value>,
    documents: Vec<Document>,
}

impl Writer {
    /// Returns all writers of `writers.yaml`, in the order of the table.
    pub fn all() -> Result<Vec<Self>> {
        /// The file. Its other lists only give names to values.
        #[derive(Deserialize)]
        struct File {
            writers: Vec<Writer>,
        }
        Ok(serde_saphyr::from_str::<File>(include_str!("writers.yaml"))?.writers)
    }

    /// Returns its name and configuration.
    pub fn title(&self) -> String {
        format!("{} | {}", self.name, self.configuration)
    }

    /// Returns the files of its source that produce the lines, if this is not its own program.
    pub fn source(&self) -> String {
        match &self.run {
            Run::Requests(requests) => format!(" ({})", requests.source),
            _ => String::new(),
        }
    }

    /// Returns the number of documents at the end.
    pub fn documents(&self) -> usize {
        self.documents.unwrap_or(match self.run {
            Run::Requests(_) => OPERATIONS as usize,
            _ => ENTRIES,
        })
    }

    /// Runs the writer directly and through the filter. Compares the answers and the documents, and returns the counts
    /// of the filter.
    pub async fn check(&self, scene: &Scene) -> Result<Counts> {
        for step in self.targets.iter().flat_map(Target::prepared) {
            scene.take(&step).await?;
        }
        let direct = self.write(scene, &scene.direct()?).await.context("directly")?;
        let first = scene.first_request();
        let (mut counted, mut filtered) = self.write_filtered(scene).await?;
        if !counted.is_all_split() {
            // The filter reads a pipeline after the first request that names it, so the second run is the usual one.
            (counted, filtered) = self.write_filtered(scene).await?;
        }
        ensure!(counted.requests() > 0, "the filter saw no request; directly, the first was {first}");
        ensure!(
            direct.documents.len() == self.documents(),
            "{} documents, expected {}; the first request was {first}",
            direct.documents.len(),
            self.documents()
        );
        compare(&direct.answers, &filtered.answers).context("answers differ")?;
        compare(&direct.documents, &filtered.documents).context("documents differ")?;
        scene.delete(&self.targets).await?;
        Ok(counted)
    }

    async fn write_filtered(&self, scene: &Scene) -> Result<(Counts, Written)> {
        scene.create(&self.targets).await?;
        let before = scene.counted().await?;
        let written = self.write_to_created(scene, &scene.filtered()).await.context("through the filter")?;
        Ok((scene.counted().await?.since(&before), written))
    }

    async fn write(&self, scene: &Scene, url: &str) -> Result<Written> {
        scene.create(&self.targets).await?;
        self.write_to_created(scene, url).await
    }

    async fn write_to_created(&self, scene: &Scene, url: &str) -> Result<Written> {
        scene.forget();
        let answers = program::run(self, scene, url).await?;
        let answers = answers.into_iter().map(|answer| self.stable_answer(answer)).collect();
        let mut documents = scene.documents(&self.targets).await?;
        for document in &mut documents {
            for pointer in &self.volatile {
                if let Some(value) = document.source.pointer_mut(pointer) {
                    *value = Value::Null;
                }
            }
            if !self.has_ids {
                document.id.clear();
            }
        }
        documents.sort_by_cached_key(|document| format!("{document:?}"));
        Ok(Written { answers, documents })
    }

    /// Returns an answer without the fields that differ between two runs.
    fn stable_answer(&self, mut answer: Value) -> Value {
        if let Some(answer) = answer.as_object_mut() {
            answer.remove("took");
            answer.remove("ingest_took");
        }
        for item in answer["items"].as_array_mut().into_iter().flatten() {
            for item in item.as_object_mut().into_iter().flat_map(|item| item.values_mut()) {
                let Some(item) = item.as_object_mut() else { continue };
                item.remove("_seq_no");
                if self.targets.iter().any(|target| target.is_stream) {
                    // Each run writes to another index of the data stream.
                    item.remove("_index");
                }
                if !self.has_ids {
                    item.remove("_id");
                }
            }
        }
        answer
    }
}

/// Returns an error that shows the first difference.
fn compare<T: PartialEq + Debug>(direct: &[T], filtered: &[T]) -> Result<()> {
    ensure!(direct.len() == filtered.len(), "{} directly, {} through the filter", direct.len(), filtered.len());
    match direct.iter().zip(filtered).find(|(one, other)| one != other) {
        Some((one, other)) => bail!("directly {one:.600?}, through the filter {other:.600?}"),
        None => Ok(()),
    }
}
