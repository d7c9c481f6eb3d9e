use bulk_reshuffle_e2e::lines;
use serde_json::{Value, json};

/// The kind of operations that a writer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// `index` with ids to an index. Such an operation may be carried out twice.
    Index,
    /// `create` without ids to a data stream, as shippers send.
    Create,
}

impl Work {
    pub fn action(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Create => "create",
        }
    }

    /// Returns an operation's id in a request, if it has one.
    pub fn id(self, writer: usize, number: u64) -> Option<String> {
        (self == Self::Index).then(|| format!("{writer}-{number}"))
    }

    /// Returns the lines of an operation. The number tells the document from all others.
    pub fn lines(self, index: &str, id: Option<&str>, number: u64) -> String {
        match id {
            Some(id) => lines::index(index, id, number),
            None => {
                let source = json!({"n": number, "@timestamp": "2024-01-01T00:00:00Z"});
                format!("{}\n{source}\n", json!({"create": {"_index": index}}))
            }
        }
    }

    /// Returns the requests that make the index or data stream: paths and bodies.
    pub fn setup(self, name: &str, settings: &Value) -> Vec<(String, Value)> {
        match self {
            Self::Index => vec![(format!("/{name}"), json!({"settings": settings}))],
            Self::Create => {
                let template = json!({"settings": settings});
                let template = json!({"index_patterns": [name], "data_stream": {}, "template": template});
                vec![(format!("/_index_template/{name}"), template), (self.path(name), Value::Null)]
            }
        }
    }

    /// Returns the path that deletes the index or data stream.
    pub fn path(self, name: &str) -> String {
        match self {
            Self::Index => format!("/{name}"),
            Self::Create => format!("/_data_stream/{name}"),
        }
    }
}
