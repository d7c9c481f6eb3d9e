use std::collections::HashMap;

/// Stands for the twin's name in whatever is written for both.
pub const TWIN: &str = "~twin~";

/// One of the two places that are given the same to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Asked at a node.
    Direct,
    /// Asked through the filter.
    Filtered,
}

impl Side {
    /// With what the names of its indices, aliases and data streams begin. Both are of one length and of one
    /// `String.hashCode`: where a request has a pipeline, OpenSearch answers in an order that this decides.
    pub const fn twin(self) -> &'static str {
        match self {
            Self::Direct => "twina_",
            Self::Filtered => "twinb@",
        }
    }
}

/// A document, by index (without the twin's name) and id.
pub type Document = (String, String);

/// Sequence number and primary term of documents, as a side's own answers gave them.
pub type Numbers = HashMap<Document, (u64, u64)>;

/// What was written for both, for one of them: its own names and its own sequence numbers.
///
/// `~twin~` stands for its name, `~3~` for the sequence number and the term of the third of these documents.
pub fn render(template: &[u8], side: Side, documents: &[Document], numbers: &Numbers) -> Vec<u8> {
    let mut text = Vec::with_capacity(template.len());
    for (place, part) in template.split(|byte| *byte == b'~').enumerate() {
        match (place % 2, part) {
            (0, part) => text.extend_from_slice(part),
            (_, b"twin") => text.extend_from_slice(side.twin().as_bytes()),
            (_, number) => {
                let number: usize = std::str::from_utf8(number).unwrap().parse().unwrap();
                // No document has this one.
                let (number, term) = numbers.get(&documents[number]).copied().unwrap_or((999_999_999, 1));
                text.extend_from_slice(format!("{number},\"if_primary_term\":{term}").as_bytes());
            }
        }
    }
    text
}
