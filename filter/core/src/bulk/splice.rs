use std::ops::Range;

use super::DocumentId;

/// What is added to action lines on their way to the nodes.
#[derive(Debug, Default)]
pub struct Splices(Vec<Splice>);

/// A parameter that is added to an action line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Splice {
    /// Where in the body.
    pub at: u32,
    /// What is there so far.
    pub gap: Gap,
    /// What is added.
    pub parameter: Parameter,
}

/// Where a parameter is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// Right behind the brace with which the line's parameters begin. There are none.
    Alone,
    /// The same, and there are others.
    First,
    /// Where the parameter is there already, with a `null` for its value.
    Null,
}

/// Bytes of `"_id":"` and an id of 20, and what follows it.
const LONGEST: usize = 29;

/// A value that is none.
pub(super) const NULL: &str = "null";

/// A parameter of an action line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// `_id`
    Id(DocumentId),
    /// `routing`, a number.
    Routing(u32),
}

impl Splices {
    /// Adds one, behind those that are there.
    pub fn push(&mut self, splice: Splice) {
        self.0.push(splice);
    }

    /// The one within an operation's lines.
    pub fn within(&self, lines: &Range<u32>) -> Option<&Splice> {
        let next = self.0.partition_point(|splice| splice.at < lines.start);
        self.0.get(next).filter(|splice| splice.at < lines.end)
    }

    /// The id that was added within an operation's lines.
    pub fn id(&self, lines: &Range<u32>) -> Option<&str> {
        match &self.within(lines)?.parameter {
            Parameter::Id(id) => Some(id.as_str()),
            Parameter::Routing(_) => None,
        }
    }

    /// About how many bytes they take.
    pub fn memory(&self) -> u64 {
        self.0.capacity().saturating_mul(size_of::<Splice>()) as u64
    }

    /// The most bytes that they make the body longer by.
    pub fn sent(&self) -> u64 {
        self.0.len().saturating_mul(LONGEST) as u64
    }
}

impl Splice {
    /// Where the body goes on behind what is added.
    pub fn end(&self) -> u32 {
        self.at.saturating_add(self.left_out() as u32)
    }

    /// Appends what is added.
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

    /// How many bytes are sent of lines that have this many.
    pub fn sent(&self, bytes: u64) -> u64 {
        let key = if self.gap == Gap::Null { 0 } else { self.parameter.key().len() };
        let value = match &self.parameter {
            Parameter::Id(id) => id.as_str().len(),
            Parameter::Routing(value) => value.checked_ilog10().unwrap_or_default().saturating_add(1) as usize,
        };
        let quotes = if self.gap == Gap::First { "\"\"," } else { "\"\"" }.len();
        let added = key.saturating_add(value).saturating_add(quotes) as u64;
        bytes.saturating_sub(self.left_out() as u64).saturating_add(added)
    }

    /// Bytes that what is added takes the place of.
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
    fn has_the_length_that_it_says() {
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
    fn is_found_in_the_operation_that_it_is_for() {
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
