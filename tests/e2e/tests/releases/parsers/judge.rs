use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use anyhow::{Context, Result};
use bulk_reshuffle::engine::ExplainedOperation;
use bulk_reshuffle_stack::{Distribution, Tools};

use super::filter::{Filter, Handling};
use super::grammar::Body;
use super::server_parser::{Operation, Outcome, ServerParser};

/// The length of the ids that the filter makes.
const GENERATED_ID: usize = 20;

/// A thread with one release's parser and the filter in front of that release.
#[derive(Debug)]
pub struct Judge {
    pub release: Distribution,
    bodies: Sender<Arc<[Body]>>,
    verdicts: Receiver<Result<Vec<Verdict>>>,
}

/// What comes of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The release refuses it, and the filter passes it through.
    Refused,
    /// The filter splits it, and the release reads it as the filter does.
    Split,
    /// The release accepts it, and the filter passes it through for this reason.
    PassedThrough(&'static str),
    /// The filter splits it, but the release refuses it or reads it differently.
    Wrong(String),
}

impl Judge {
    /// Starts the parser of a release, from the folder of its compiled program.
    pub fn start(tools: &Tools, classes: &Path, release: Distribution) -> Result<Self> {
        let mut parser = ServerParser::start(tools, classes, release)?;
        let (bodies, to_judge) = mpsc::channel::<Arc<[Body]>>();
        let (judged, verdicts) = mpsc::channel();
        thread::spawn(move || {
            let mut filter = Filter::in_front_of(release);
            for bodies in to_judge {
                let verdicts = judge(&mut filter, &mut parser, &bodies);
                // An error means that the test is over.
                judged.send(verdicts).ok();
            }
        });
        Ok(Self { release, bodies, verdicts })
    }

    /// Begins to judge bodies.
    pub fn begin(&self, bodies: &Arc<[Body]>) -> Result<()> {
        Ok(self.bodies.send(Arc::clone(bodies))?)
    }

    /// Waits for the verdict on each of the bodies.
    pub fn verdicts(&self) -> Result<Vec<Verdict>> {
        self.verdicts.recv().context("the judge's thread has ended")?
    }
}

fn judge(filter: &mut Filter, parser: &mut ServerParser, bodies: &[Body]) -> Result<Vec<Verdict>> {
    let handled: Vec<_> = bodies.iter().map(|body| filter.handle(body)).collect::<Result<_>>()?;
    let mut texts = Vec::new();
    for (body, handling) in bodies.iter().zip(&handled) {
        texts.push((body.query, body.bytes.as_slice()));
        texts.extend(handling.batches().iter().map(|batch| (body.query, batch.as_slice())));
    }
    let mut outcomes = parser.read(&texts)?.into_iter();
    let mut verdicts = Vec::new();
    for handling in &handled {
        let original = outcomes.next().context("an outcome for each body")?;
        verdicts.push(verdict(handling, original, outcomes.by_ref().take(handling.batches().len())));
    }
    Ok(verdicts)
}

fn verdict(handling: &Handling, original: Outcome, sent: impl Iterator<Item = Outcome>) -> Verdict {
    let (understood, original) = match (handling, original) {
        (Handling::PassedThrough(_), Outcome::Refused { .. }) => return Verdict::Refused,
        (Handling::PassedThrough(reason), Outcome::Accepted { .. }) => return Verdict::PassedThrough(reason),
        (Handling::Split { .. }, Outcome::Refused { status, reason }) => {
            return Verdict::Wrong(format!("the server refuses it with {status}: {reason}"));
        }
        (Handling::Split { operations: understood, .. }, Outcome::Accepted { operations }) => (understood, operations),
    };
    let is_equal = understood.len() == original.len()
        && understood.iter().zip(&original).all(|(understood, original)| is_same(understood, original));
    if !is_equal {
        return Verdict::Wrong(format!("the filter reads {understood:#?}, the server {original:#?}"));
    }
    match batched(sent) {
        Ok(sent) if sent == comparable(original.clone()) => Verdict::Split,
        Ok(sent) => Verdict::Wrong(format!("the nodes read {sent:#?}, and not {original:#?}")),
        Err(why) => Verdict::Wrong(why),
    }
}

/// Returns whether the filter understands an operation as the server does.
fn is_same(understood: &ExplainedOperation, original: &Operation) -> bool {
    let ExplainedOperation { action, name, id, routing, pipelines, .. } = understood;
    let pipeline = original.pipeline.as_deref().filter(|pipeline| *pipeline != "_none");
    (action.name(), name, id, routing) == (&original.action, &original.index, &original.id, &original.routing)
        // Only documents have pipelines here; those of updates run for new documents only.
        && (action.name() == "update" || pipelines.first().map(|pipeline| pipeline.name.as_str()) == pipeline)
}

/// Returns the operations of all batches.
fn batched(sent: impl Iterator<Item = Outcome>) -> Result<Vec<Operation>, String> {
    let mut operations = Vec::new();
    for outcome in sent {
        match outcome {
            Outcome::Accepted { operations: read } => operations.extend(read),
            Outcome::Refused { status, reason } => {
                return Err(format!("a node refuses its batch with {status}: {reason}"));
            }
        }
    }
    Ok(comparable(operations))
}

/// Sorts operations, because batches have them in another order, and removes ids that may be the filter's.
fn comparable(mut operations: Vec<Operation>) -> Vec<Operation> {
    for operation in &mut operations {
        operation.id = operation.id.take().filter(|id| id.len() != GENERATED_ID);
    }
    operations.sort();
    operations
}
