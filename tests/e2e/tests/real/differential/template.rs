use std::collections::HashMap;

/// The placeholder of the twin's name in templates.
pub const TWIN: &str = "~twin~";

/// One of the two sides that get the same requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Requests are sent to a node.
    Direct,
    /// Requests are sent through the filter.
    Filtered,
}

impl Side {
    pub const BOTH: [Self; 2] = [Self::Direct, Self::Filtered];

    /// Returns the prefix of the names of the side's indices, aliases and data streams. Both prefixes have the same
    /// length and the same `String.hashCode`, which determines the order of OpenSearch's answers to requests with a
    /// pipeline.
    pub const fn twin(self) -> &'static str {
        match self {
            Self::Direct => "twina_",
            Self::Filtered => "twinb@",
        }
    }
}

/// A document, by index (without the twin's name) and id.
pub type Document = (String, String);

/// The sequence numbers and primary terms of documents, from a side's own answers.
pub type Numbers = HashMap<Document, (u64, u64)>;

/// Renders a template for one side, with that side's names and sequence numbers.
///
/// `~twin~` stands for the side's prefix, `~3~` for the sequence number and the primary term of document 3.
pub fn render(template: &[u8], side: Side, documents: &[Document], numbers: &Numbers) -> Vec<u8> {
    let mut text = Vec::with_capacity(template.len());
    for (place, part) in template.split(|byte| *byte == b'~').enumerate() {
        match (place % 2, part) {
            (0, part) => text.extend_from_slice(part),
            (_, b"twin") => text.extend_from_slice(side.twin().as_bytes()),
            (_, number) => {
                let number: usize = std::str::from_utf8(number).unwrap().parse().unwrap();
                // No document has this sequence number.
                let (number, term) = numbers.get(&documents[number]).copied().unwrap_or((999_999_999, 1));
                text.extend_from_slice(format!("{number},\"if_primary_term\":{term}").as_bytes());
            }
        }
    }
    text
}
