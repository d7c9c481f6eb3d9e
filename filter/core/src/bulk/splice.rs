use std::ops::Range;

use super::DocumentId;

/// What is added to action lines on their way to the nodes.
#[derive(Debug, Default)]
pub struct Splices(Vec<Splice>);

/// A parameter that is added to an action line, before the ones that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Splice {
    /// Where in the body: right behind the brace with which the line's parameters begin.
    pub at: u32,
    /// Whether there are none so far.
    pub alone: bool,
    /// What is added.
    pub parameter: Parameter,
}

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
        self.0.len().saturating_mul(size_of::<Splice>()) as u64
    }
}

impl Splice {
    /// Appends what is added.
    pub fn write(&self, to: &mut Vec<u8>) {
        match &self.parameter {
            Parameter::Id(id) => {
                to.extend_from_slice(br#""_id":""#);
                to.extend_from_slice(id.as_str().as_bytes());
            }
            Parameter::Routing(value) => {
                to.extend_from_slice(br#""routing":""#);
                to.extend_from_slice(value.to_string().as_bytes());
            }
        }
        to.extend_from_slice(if self.alone { b"\"" } else { b"\"," });
    }

    /// Bytes of what is added.
    pub fn bytes(&self) -> usize {
        let parameter = match &self.parameter {
            Parameter::Id(id) => r#""_id":"""#.len().saturating_add(id.as_str().len()),
            Parameter::Routing(value) => {
                let digits = value.checked_ilog10().unwrap_or_default().saturating_add(1) as usize;
                r#""routing":"""#.len().saturating_add(digits)
            }
        };
        parameter.saturating_add(usize::from(!self.alone))
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
            for (alone, end) in [(true, ""), (false, ",")] {
                let splice = Splice { at: 0, alone, parameter };
                let mut text = Vec::new();
                splice.write(&mut text);
                assert_eq!(String::from_utf8(text).unwrap(), format!("{expected}{end}"));
                assert_eq!(splice.bytes(), expected.len() + end.len());
            }
        }
    }

    #[test]
    fn is_found_in_the_operation_that_it_is_for() {
        let mut splices = Splices::default();
        for at in [10, 50] {
            splices.push(Splice { at, alone: true, parameter: Parameter::Routing(at) });
        }
        let within = |lines: Range<u32>| splices.within(&lines).map(|splice| splice.at);
        assert_eq!((within(0..30), within(30..40), within(40..60), within(60..70)), (Some(10), None, Some(50), None));
        assert_eq!((within(10..11), within(0..10), within(11..50)), (Some(10), None, None));
        assert_eq!(splices.id(&(0..30)), None);
    }
}
