use std::ops::Range;

use super::DocumentId;
use crate::invariant::Count;

/// The parameters that are added to a request's action lines on their way to the nodes.
#[derive(Debug, Default)]
pub struct Splices(Vec<Splice>);

/// A parameter that is added to an action line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Splice {
    /// The offset in the body.
    pub at: u32,
    /// The text at that offset.
    pub gap: Gap,
    /// The added parameter.
    pub parameter: Parameter,
}

/// The place where a parameter is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// Right after the opening brace of the line's parameters, which are empty.
    Alone,
    /// Right after the opening brace of the line's parameters; others follow.
    First,
    /// In place of the parameter's `null` value.
    Null,
}

/// The length of `"_id":"` with an id of 20 characters and the text after it.
const MAX_INSERTED_BYTES: usize = 29;

/// The value that stands for an absent parameter.
pub(super) const NULL: &str = "null";

/// A parameter of an action line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// The parameter `_id`.
    Id(DocumentId),
    /// The parameter `routing`, a number.
    Routing(u32),
}

impl Splices {
    /// Appends a splice. It must lie after the existing ones.
    pub fn push(&mut self, splice: Splice) {
        self.0.push(splice);
    }

    /// Returns the splice within an operation's lines.
    pub fn within(&self, lines: &Range<u32>) -> Option<&Splice> {
        let next = self.0.partition_point(|splice| splice.at < lines.start);
        self.0.get(next).filter(|splice| splice.at < lines.end)
    }

    /// Returns the id that was added within an operation's lines.
    pub fn id(&self, lines: &Range<u32>) -> Option<&str> {
        match &self.within(lines)?.parameter {
            Parameter::Id(id) => Some(id.as_str()),
            Parameter::Routing(_) => None,
        }
    }

    /// Returns the approximate memory use, in bytes.
    pub fn memory(&self) -> u64 {
        self.0.capacity().saturating_mul(size_of::<Splice>()) as u64
    }

    /// Returns the maximum number of bytes that the splices add to the body.
    pub fn sent(&self) -> u64 {
        self.0.len().saturating_mul(MAX_INSERTED_BYTES) as u64
    }
}

impl Splice {
    /// Returns the offset at which the body continues after the splice.
    pub fn end(&self) -> u32 {
        self.at.plus(self.left_out() as u32, "a body has fewer than 4 GiB")
    }

    /// Appends the added text.
    pub fn write(&self, to: &mut Vec<u8>) {
        let is_new = self.gap != Gap::Null;
        if is_new {
            to.extend_from_slice(self.parameter.key().as_bytes());
        }
        to.push(b'"');
        match &self.parameter {
            Parameter::Id(id) => to.extend_from_slice(id.as_str().as_bytes()),
            Parameter::Routing(value) => to.extend_from_slice(value.to_string().as_bytes()),
        }
        to.extend_from_slice(if self.gap == Gap::First { b"\"," } else { b"\"" });
    }

    /// Returns how many bytes are sent for lines of `bytes` bytes.
    pub fn sent(&self, bytes: u64) -> u64 {
        let key = if self.gap == Gap::Null { 0 } else { self.parameter.key().len() };
        let value = match &self.parameter {
            Parameter::Id(id) => id.as_str().len(),
            Parameter::Routing(value) => value.checked_ilog10().unwrap_or_default().saturating_add(1) as usize,
        };
        let quotes = if self.gap == Gap::First { "\"\"," } else { "\"\"" }.len();
        let added = key.saturating_add(value).saturating_add(quotes) as u64;
        bytes.minus(self.left_out() as u64, "a splice lies within its line").plus(added, "a body has fewer than 4 GiB")
    }

    /// Returns the number of bytes that the added text replaces.
    fn left_out(&self) -> usize {
        if self.gap == Gap::Null { NULL.len() } else { 0 }
    }
}

impl Parameter {
    fn key(&self) -> &'static str {
        match self {
            Self::Id(_) => "\"_id\":",
            Self::Routing(_) => "\"routing\":",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_its_written_length() {
        let id = Parameter::Id(DocumentId::new([0xff; 15]));
        for (parameter, expected) in [
            (id, r#""_id":"____________________""#),
            (Parameter::Routing(0), r#""routing":"0""#),
            (Parameter::Routing(9), r#""routing":"9""#),
            (Parameter::Routing(10), r#""routing":"10""#),
            (Parameter::Routing(u32::MAX), r#""routing":"4294967295""#),
        ] {
            let value = expected.split_once(':').unwrap().1;
            for (gap, expected, left_out) in
                [(Gap::Alone, expected, 0), (Gap::First, &format!("{expected},"), 0), (Gap::Null, value, 4)]
            {
                let splice = Splice { at: 10, gap, parameter };
                let mut text = Vec::new();
                splice.write(&mut text);
                assert_eq!(String::from_utf8(text).unwrap(), expected);
                assert_eq!(splice.end(), 10 + left_out);
                assert_eq!(splice.sent(100), 100 + expected.len() as u64 - u64::from(left_out));
            }
        }
    }

    #[test]
    fn is_found_within_its_operation() {
        let mut splices = Splices::default();
        for at in [10, 50] {
            splices.push(Splice { at, gap: Gap::Alone, parameter: Parameter::Routing(at) });
        }
        let within = |lines: Range<u32>| splices.within(&lines).map(|splice| splice.at);
        assert_eq!((within(0..30), within(30..40), within(40..60), within(60..70)), (Some(10), None, Some(50), None));
        assert_eq!((within(10..11), within(0..10), within(11..50)), (Some(10), None, None));
        assert_eq!(splices.id(&(0..30)), None);
    }
}
