use std::collections::BTreeSet;
use std::rc::Rc;

use bulk_reshuffle::bulk::Action;

use crate::call_outcome::OVERLOADED;
use crate::layout::{COORDINATOR, Layout};
use crate::operation::{MARK, Marker, Operation};
use crate::rng::Rng;
use crate::single_document::UNCHANGED;

/// The model of a search cluster: documents in memory, and operations executed one after the other.
#[derive(Debug)]
pub struct Cluster {
    /// All layouts since the beginning, the current one last.
    pub history: Vec<Rc<Layout>>,
    documents: BTreeSet<Document>,
    /// The number of executed operations. The number of each one is the `_seq_no` in its item.
    carried_out: u64,
}

/// A document by its index, its routing value if that decides on the shard, and its id.
pub type Document = (&'static str, Option<String>, String);

/// An operation that a node executed or refused.
#[derive(Debug, Clone)]
pub struct Execution {
    pub item: String,
    /// The status with which the node refused this operation alone. Nothing of it was executed then.
    pub refused: Option<u64>,
    /// The document of the operation, if that was always certain.
    pub document: Option<Document>,
}

/// The failures of a single operation, whatever the rest of its batch.
const REFUSALS: &[(u64, &str)] = &[
    (429, OVERLOADED),
    (400, "mapper_parsing_exception"),
    (403, "cluster_block_exception"),
    (503, "unavailable_shards_exception"),
];

/// The index in which an unproven pipeline stores documents.
const STORED_IN: &str = "i";

/// The field of an item for which a pipeline ran.
pub const INGESTED: &str = r#""executed_pipelines":["harmless"]"#;

impl Execution {
    /// Returns the status of its item if that is a failure.
    pub fn failure(&self) -> Option<u64> {
        let (_, status) = self.item.split_once(r#""status":"#).filter(|_| self.has_failed())?;
        status.split(|char: char| !char.is_ascii_digit()).next()?.parse().ok()
    }

    pub fn has_failed(&self) -> bool {
        self.item.contains(r#""error""#)
    }
}

impl Cluster {
    pub fn new() -> Self {
        Self { history: vec![Rc::new(Layout::new())], documents: BTreeSet::new(), carried_out: 0 }
    }

    pub fn layout(&self) -> Rc<Layout> {
        self.history.last().cloned().unwrap_or_else(|| Rc::new(Layout::new()))
    }

    /// Makes one random change, and returns its name.
    pub fn change(&mut self, rng: &mut Rng) -> &'static str {
        let mut layout = Layout::clone(&self.layout());
        let what = layout.change(rng);
        self.history.push(Rc::new(layout));
        what
    }

    /// Returns whether the node of this upstream has ever been the one that an operation belongs to.
    pub fn has_owned(&self, upstream: &str, operation: &Operation) -> bool {
        let targets: BTreeSet<_> = self.history.iter().filter_map(|layout| layout.target(&operation.name)).collect();
        // The nodes are queried before the primaries, so a node that joins in between is unknown.
        let is_new = |owner: &str| self.history.iter().any(|layout| !layout.has_node(owner));
        self.history.iter().any(|layout| {
            targets.iter().any(|(index, added)| match layout.owner(index, operation, *added) {
                Some(Some(owner)) => owner == upstream || upstream == COORDINATOR && is_new(&owner),
                Some(None) => true,
                None => false,
            })
        })
    }

    /// Returns the shards that an operation may have belonged to since the beginning. `None` stands for no particular
    /// shard.
    pub fn shards(&self, operation: &Operation) -> BTreeSet<Option<(&'static str, u32)>> {
        // The state and the aliases may be from different moments.
        let targets: BTreeSet<_> = self.history.iter().filter_map(|layout| layout.target(&operation.name)).collect();
        let shards = |(index, added): &(&'static str, Option<&str>)| {
            let of_layout = |layout: &Rc<Layout>| layout.shard(index, operation, *added);
            let shards: Vec<_> = self.history.iter().filter_map(of_layout).collect();
            shards.into_iter().map(|shard| shard.map(|shard| (*index, shard))).collect::<Vec<_>>()
        };
        targets.iter().flat_map(shards).collect()
    }

    /// Executes an operation, or refuses it.
    pub fn carry_out(&mut self, marker: Marker, operation: &Operation, refused: u64, rng: &mut Rng) -> Execution {
        self.carried_out = self.carried_out.saturating_add(1);
        let number = self.carried_out;
        let made = format!("made-{number}");
        let id = operation.id.as_deref().unwrap_or(&made);
        let ran = if operation.piped { format!(",{INGESTED}") } else { String::new() };
        let head = |index: &str| format!(r#"{{"{}":{{"_index":"{index}","_id":"{id}"{ran}"#, operation.action.name());
        let error = |index: &str, status: u64, kind: &str| {
            let error = format!(r#"{{"type":"{kind}","reason":"operation {marker}"}}"#);
            format!(r#"{},"status":{status},"error":{error}}}}}"#, head(index))
        };
        let mut refusal = None;
        // A pipeline drops some documents, and fails others, which may then be stored elsewhere.
        let ingested = if operation.piped { rng.up_to(9) } else { 9 };
        let target = self.target(operation);
        let item = match target {
            Some((index, _)) if ingested == 0 => {
                format!(r#"{},"_version":-3,"result":"noop","status":200}}}}"#, head(index))
            }
            Some((index, _)) if ingested == 1 => {
                refusal = Some(400);
                error(index, 400, "fail_processor_exception")
            }
            Some(_) if ingested == 2 => format!(
                r#"{{"{}":{{"_index":".fs-1","_id":"stored-{number}","result":"created",{INGESTED},"status":201}}}}"#,
                operation.action.name()
            ),
            None => error(&operation.name, 404, "index_not_found_exception"),
            Some((index, _)) if rng.percent(refused) => {
                let (status, kind) = rng.one_of(REFUSALS);
                refusal = Some(status);
                error(index, status, kind)
            }
            Some((index, added)) => {
                let routing = added.map(str::to_owned).or(operation.routing.clone());
                // Ids that differ in their marks mean one document, so that single documents meet others.
                let id = id.split(MARK).next().unwrap_or_default().to_owned();
                let (status, result) = self.write(operation.action, (index, routing, id));
                match status {
                    409 => error(index, 409, "version_conflict_engine_exception"),
                    404 if operation.action == Action::Update => error(index, 404, "document_missing_exception"),
                    _ => {
                        // Some updates change nothing.
                        let outcome = match (operation.action, result) {
                            (Action::Update, "updated") if rng.percent(30) => UNCHANGED.to_owned(),
                            _ => format!(r#""result":"{result}""#),
                        };
                        format!(
                            r#"{},"_version":{marker},{outcome},"_seq_no":{number},"status":{status}}}}}"#,
                            head(index)
                        )
                    }
                }
            }
        };
        let document = if ingested < 3 { None } else { self.document(operation) };
        Execution { item, refused: refusal, document }
    }

    /// Returns the document that an operation is for. Returns `None` if the cluster chooses its id, or if its name has
    /// ever meant another index: then not even the cluster would apply a request's operations in order.
    fn document(&self, operation: &Operation) -> Option<Document> {
        let id = operation.id.clone()?;
        if operation.unproven {
            return Some((STORED_IN, operation.routing.clone(), id));
        }
        let mut targets = self.history.iter().map(|layout| layout.target(&operation.name));
        let (index, added) = targets.next()??;
        let routing = added.map(str::to_owned).or(operation.routing.clone());
        targets.all(|target| target == Some((index, added))).then_some((index, routing, id))
    }

    /// Returns the index that an operation is stored in now, with the routing value that its name adds.
    fn target(&self, operation: &Operation) -> Option<(&'static str, Option<&'static str>)> {
        let target = self.layout().target(&operation.name)?;
        Some(if operation.unproven { (STORED_IN, None) } else { target })
    }

    fn write(&mut self, action: Action, document: Document) -> (u64, &'static str) {
        match action {
            Action::Delete if self.documents.remove(&document) => (200, "deleted"),
            Action::Delete => (404, "not_found"),
            Action::Create if self.documents.contains(&document) => (409, ""),
            Action::Update if !self.documents.contains(&document) => (404, ""),
            _ if self.documents.insert(document) => (201, "created"),
            _ => (200, "updated"),
        }
    }
}
