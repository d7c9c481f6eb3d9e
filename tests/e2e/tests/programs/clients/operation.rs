//! The operations that every client sends, with their expected outcomes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::documents::Document;

/// The number of operations, enough for several requests of each client, on all nodes.
const COUNT: usize = 400;

/// An operation. Each one has its own document, so that the order of requests does not matter.
#[derive(Debug)]
pub struct Operation {
    pub n: usize,
    pub action: &'static str,
    /// The id, or `None` if the server generates it.
    pub id: Option<String>,
    pub routing: Option<String>,
    pub document: Value,
    pub status: u16,
    /// The error in the answer, if any. A delete of a missing document has only a status.
    pub error: Option<Error>,
}

/// The kinds of errors of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    Conflict,
    Missing,
    Mapping,
}

/// The final state of a document: its routing value and its source.
type Stored = (Option<String>, Value);

/// Returns a document's name, which is its id, or its number if the id was generated, and its state.
pub fn stored(document: Document) -> (String, Stored) {
    let Document { id, routing, source } = document;
    let is_ours = id.contains([' ', '/']);
    (if is_ours { id } else { format!("generated {}", source["n"]) }, (routing, source))
}

impl Error {
    /// Returns whether servers call the error by this name.
    pub fn is_called(self, name: &str) -> bool {
        match self {
            Self::Conflict => name == "version_conflict_engine_exception",
            Self::Missing => name == "document_missing_exception",
            // Elasticsearch 8 uses a different name from all others.
            Self::Mapping => ["mapper_parsing_exception", "document_parsing_exception"].contains(&name),
        }
    }
}

/// Returns the operations, which cycle through all kinds.
pub fn operations() -> Vec<Operation> {
    (0..COUNT).map(Operation::numbered).collect()
}

/// Returns the bulk request that creates the documents that exist before the operations.
pub fn earlier_documents(index: &str) -> String {
    let found =
        |operation: &Operation| operation.is_about_an_earlier_document().then(|| operation.id.clone()).flatten();
    operations()
        .iter()
        .filter_map(found)
        .map(|id| format!("{}\n{}\n", json!({"index": {"_index": index, "_id": id}}), json!({"n": -1, "text": "old"})))
        .collect()
}

/// Returns the expected final documents by id, or by number if the id was generated.
pub fn later_documents() -> BTreeMap<String, Stored> {
    operations().iter().filter_map(|operation| Some((operation.name(), operation.result()?))).collect()
}

impl Operation {
    fn numbered(n: usize) -> Self {
        let document = json!({"n": n, "text": format!("text {n}")});
        let good = |action, status| Self {
            n,
            action,
            id: Some(format!("id {n}")),
            routing: None,
            document: document.clone(),
            status,
            error: None,
        };
        let bad = |action, status, error| Self { error: Some(error), ..good(action, status) };
        match n {
            // A keyword cannot be an object.
            42 | 333 => Self { document: json!({"n": n, "text": {"no": "text"}}), ..bad("index", 400, Error::Mapping) },
            43 => bad("update", 404, Error::Missing),
            44 => Self { document: Value::Null, ..good("delete", 404) },
            _ => match n % 8 {
                0 => good("create", 201),
                1 => bad("create", 409, Error::Conflict),
                2 => good("update", 200),
                3 => Self { document: Value::Null, ..good("delete", 200) },
                4 => Self { id: None, ..good("index", 201) },
                5 => Self { routing: Some(format!("routing {}", n % 7)), ..good("index", 201) },
                6 => Self { id: Some(format!("\"ä/{n}\"")), ..good("index", 201) },
                _ => good("index", 201),
            },
        }
    }

    /// Returns the operation as a line of the programs' input file.
    pub fn line(&self) -> String {
        let Self { n, action, id, routing, document, .. } = self;
        json!({"n": n, "action": action, "id": id, "routing": routing, "document": document}).to_string()
    }

    pub fn is_good(&self) -> bool {
        self.status < 300
    }

    /// Returns the document's version after the operation, if it succeeds.
    pub fn version(&self) -> Option<u64> {
        self.is_good().then_some(if self.is_about_an_earlier_document() { 2 } else { 1 })
    }

    fn is_about_an_earlier_document(&self) -> bool {
        matches!((self.action, self.status), ("update" | "delete", 200) | ("create", 409))
    }

    fn name(&self) -> String {
        self.id.clone().unwrap_or_else(|| format!("generated {}", self.n))
    }

    /// Returns the document after the operation, if any.
    fn result(&self) -> Option<Stored> {
        match (self.action, self.error) {
            ("delete", _) | (_, Some(Error::Mapping | Error::Missing)) => None,
            (_, Some(Error::Conflict)) => Some((None, json!({"n": -1, "text": "old"}))),
            _ => Some((self.routing.clone(), self.document.clone())),
        }
    }
}
