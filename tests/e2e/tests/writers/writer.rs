use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::Distribution;
use serde_json::Value;

use crate::outcomes::Counted;
use crate::program::Program;
use crate::requests::Requests;
use crate::scene::{Documents, Scene};
use crate::target::Target;

/// A writer in one configuration.
#[derive(Debug)]
pub struct Writer {
    pub name: &'static str,
    pub configuration: &'static str,
    /// The releases that it supports.
    pub on: &'static [Distribution],
    pub targets: Vec<Target>,
    pub run: Run,
    /// The number of documents at the end.
    pub documents: usize,
    /// Whether documents have the same ids in each run.
    pub has_ids: bool,
    /// JSON pointers to fields that differ between two runs of the program itself.
    pub volatile: &'static [&'static str],
}

/// The way to run a writer.
#[derive(Debug)]
pub enum Run {
    /// The requests with the lines that the writer's source, in this file, produces.
    Requests(&'static str, Requests),
    /// The writer's own program.
    Program(Program),
}

impl Run {
    /// Returns whether its program must be compiled first.
    pub fn is_compiled(&self) -> bool {
        matches!(self, Self::Program(program) if program.is_compiled())
    }
}

/// The state after a run.
#[derive(Debug)]
struct Written {
    answers: Vec<Value>,
    documents: Documents,
}

impl Writer {
    /// Returns its name and configuration.
    pub fn title(&self) -> String {
        format!("{} | {}", self.name, self.configuration)
    }

    /// Returns the files of its source that produce the lines, if this is not its own program.
    pub fn source(&self) -> String {
        match &self.run {
            Run::Requests(source, _) => format!(" ({source})"),
            Run::Program(_) => String::new(),
        }
    }

    /// Runs the writer directly and through the filter. Compares the answers and the documents, and returns the counts
    /// of the filter.
    pub async fn check(&self, scene: &Scene) -> Result<Counted> {
        for step in self.targets.iter().flat_map(|target| &target.prepared) {
            scene.take(step).await?;
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
            direct.documents.len() == self.documents,
            "{} documents, expected {}; the first request was {first}",
            direct.documents.len(),
            self.documents
        );
        compare(&direct.answers, &filtered.answers).context("answers differ")?;
        compare(&direct.documents, &filtered.documents).context("documents differ")?;
        scene.delete(&self.targets).await?;
        Ok(counted)
    }

    async fn write_filtered(&self, scene: &Scene) -> Result<(Counted, Written)> {
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
        let answers = match &self.run {
            Run::Requests(_, requests) => requests.send(&scene.client, url).await?,
            Run::Program(program) => {
                program.run(self, scene, url).await?;
                Vec::new()
            }
        };
        let answers = answers.into_iter().map(|answer| self.stable_answer(answer)).collect();
        let mut documents = scene.documents(&self.targets).await?;
        for (id, _, source) in &mut documents {
            for pointer in self.volatile {
                if let Some(value) = source.pointer_mut(pointer) {
                    *value = Value::Null;
                }
            }
            if !self.has_ids {
                id.clear();
            }
        }
        documents.sort_by_cached_key(|(id, routing, source)| format!("{id} {routing} {source}"));
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
fn compare<T: PartialEq + std::fmt::Debug>(direct: &[T], filtered: &[T]) -> Result<()> {
    ensure!(direct.len() == filtered.len(), "{} directly, {} through the filter", direct.len(), filtered.len());
    match direct.iter().zip(filtered).find(|(one, other)| one != other) {
        Some((one, other)) => anyhow::bail!("directly {one:.600?}, through the filter {other:.600?}"),
        None => Ok(()),
    }
}
