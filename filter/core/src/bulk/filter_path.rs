use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::wildcard::fits;

/// The parameter `filter_path`: what a client wants to see of an answer.
///
/// Comma-separated patterns of field names joined by dots, where `*` stands for any part of a name and the name `**`
/// for one or more names. With patterns that begin with `-` the client says what it does not want to see. Arrays do
/// not count as a level.
///
/// The rules are those of `FilterPathBasedFilter`, by which Elasticsearch and OpenSearch filter. Refusals are not
/// filtered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterPath {
    included: Vec<Pattern>,
    excluded: Vec<Pattern>,
}

/// What is left of some patterns at one place of an answer: which of its fields are included, and which of those are
/// excluded again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection<'a> {
    included: Reach<'a>,
    excluded: Reach<'a>,
}

/// The verdict on a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate<'a> {
    /// It is kept as it is.
    Kept,
    /// It is left out.
    Dropped,
    /// If it is an object or an array, what is selected inside is kept, and the value itself is dropped if that is
    /// nothing. If it is neither, it is kept if `scalars`.
    Filtered {
        /// What is selected inside.
        inside: Selection<'a>,
        /// Whether values that are neither objects nor arrays are kept.
        scalars: bool,
    },
}

type Pattern = Vec<Segment>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// `**`
    AnyDepth,
    /// A name, perhaps with asterisks.
    Name(String),
}

/// How far patterns reach at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reach<'a> {
    Everything,
    Nothing,
    /// What may follow of the patterns that fit so far; none is empty.
    Inside(Vec<&'a [Segment]>),
}

/// More than anybody asks for in earnest: each name of an answer is held against them.
const MAX_SEGMENTS: usize = 100;

/// The fields of an item (`items`, the action, the field): versions differ in what an exclusion that reaches further
/// makes of objects that were empty before (Elasticsearch keeps them since 8.15).
const MAX_EXCLUDED: usize = 3;

impl FilterPath {
    /// Reads the parameter's value as it stands in the query. `None` if not all servers understand it alike.
    pub fn parse(value: &str) -> Option<Self> {
        let value = decoded(value)?;
        let mut parsed = Self::default();
        for pattern in value.split(',').filter(|pattern| !pattern.is_empty()) {
            match pattern.strip_prefix('-') {
                Some(pattern) => parsed.excluded.push(exclusion(pattern)?),
                None => parsed.included.push(segments(pattern.trim_matches(' '))?),
            }
        }
        let patterns = parsed.included.iter().chain(&parsed.excluded);
        (patterns.map(Vec::len).sum::<usize>() <= MAX_SEGMENTS).then_some(parsed)
    }

    /// Whether an answer stays as it is.
    pub fn is_empty(&self) -> bool {
        self.included.is_empty() && self.excluded.is_empty()
    }

    /// What is selected of an answer's own fields.
    pub fn selection(&self) -> Selection<'_> {
        let included = match self.included.as_slice() {
            [] => Reach::Everything,
            patterns => Reach::inside(patterns),
        };
        let excluded = match self.excluded.as_slice() {
            [] => Reach::Nothing,
            patterns => Reach::inside(patterns),
        };
        Selection { included, excluded }
    }
}

impl<'a> Selection<'a> {
    /// Returns the verdict on the value of a field.
    pub fn field(&self, name: &str) -> Fate<'a> {
        Self { included: self.included.field(name), excluded: self.excluded.field(name) }.fate()
    }

    /// Returns the verdict on the value that the selection is for.
    pub fn fate(self) -> Fate<'a> {
        match (&self.included, &self.excluded) {
            (Reach::Nothing, _) | (_, Reach::Everything) => Fate::Dropped,
            (Reach::Everything, Reach::Nothing) => Fate::Kept,
            (included, _) => Fate::Filtered { scalars: *included == Reach::Everything, inside: self },
        }
    }
}

impl Fate<'_> {
    /// Whether a value that is neither an object nor an array is kept.
    pub fn keeps_scalars(&self) -> bool {
        match self {
            Self::Kept => true,
            Self::Dropped => false,
            Self::Filtered { scalars, .. } => *scalars,
        }
    }
}

impl<'a> Reach<'a> {
    fn inside(patterns: &'a [Pattern]) -> Self {
        Self::Inside(patterns.iter().map(Vec::as_slice).collect())
    }

    fn field(&self, name: &str) -> Self {
        let Self::Inside(patterns) = self else { return self.clone() };
        let mut inside: Vec<&[Segment]> = Vec::new();
        for &pattern in patterns {
            let Some((segment, rest)) = pattern.split_first() else { continue };
            if !segment.matches(name) {
                continue;
            }
            if rest.is_empty() {
                return Self::Everything;
            }
            let again = (*segment == Segment::AnyDepth).then_some(pattern);
            for next in again.into_iter().chain([rest]) {
                if !inside.contains(&next) {
                    inside.push(next);
                }
            }
        }
        if inside.is_empty() { Self::Nothing } else { Self::Inside(inside) }
    }
}

impl Segment {
    fn read(text: &str) -> Option<Self> {
        match text {
            "**" => Some(Self::AnyDepth),
            "" => None,
            // A backslash escapes dots, or in some versions whatever follows.
            _ if text.contains("**") || text.contains(['\\', ' ']) => None,
            _ => Some(Self::Name(text.to_owned())),
        }
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::AnyDepth => true,
            Self::Name(pattern) => fits(pattern, name),
        }
    }
}

/// Percent-decoded, as servers do it. `None` for what they refuse, and where the coding is not plain.
fn decoded(value: &str) -> Option<Cow<'_, str>> {
    let decoded = percent_decode_str(value).decode_utf8().ok()?;
    // A percent sign is one that was not followed by digits, or one that was encoded itself.
    (!value.contains('+') && !decoded.contains(|char: char| char == '%' || char.is_control())).then_some(decoded)
}

fn segments(pattern: &str) -> Option<Pattern> {
    // Some versions trim before they look for the sign, some after.
    if pattern.starts_with('-') {
        return None;
    }
    pattern.split('.').map(Segment::read).collect()
}

fn exclusion(pattern: &str) -> Option<Pattern> {
    let segments = segments(pattern)?;
    (segments.len() <= MAX_EXCLUDED && !segments.contains(&Segment::AnyDepth)).then_some(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_not_all_versions_understand_alike_is_not_supported() {
        for value in [
            "-",
            "--errors",
            "- errors",
            " -errors",
            ".errors",
            "errors.",
            "items..status",
            " ",
            "errors, ,took",
            r"items\.x",
            r"errors\",
            "items.***.type",
            "it**s",
            "err+ors",
            "a%2",
            "%zz",
            "%25",
            "%ff",
            "er%20rors",
            "%00",
            "-**.reason",
            "-items.**",
            "-items.*.error.type",
        ] {
            assert_eq!(FilterPath::parse(value), None, "{value}");
        }
        assert_eq!(FilterPath::parse(&["a.b"; 51].join(",")), None);
        assert!(FilterPath::parse(&["a.b"; 50].join(",")).is_some());
    }

    #[test]
    fn encoded_and_repeated_patterns_are_the_same_patterns() {
        let plain = FilterPath::parse("errors,items.*.status").unwrap();
        assert_eq!(FilterPath::parse("error%73%2Citems%2E*%2Estatus,"), Some(plain.clone()));
        assert_eq!(FilterPath::parse("errors,%20items.*.status%20"), Some(plain));
        for nothing in ["", ",", ",,"] {
            assert!(FilterPath::parse(nothing).unwrap().is_empty());
        }
    }

    #[test]
    fn any_depth_is_one_name_or_more() {
        let filter = FilterPath::parse("**.**.status").unwrap();
        let at = |names: &[&str]| {
            names.iter().try_fold(filter.selection(), |selection, name| match selection.field(name) {
                Fate::Filtered { inside, .. } => Ok(inside),
                fate => Err(fate),
            })
        };
        assert!(at(&["status"]).is_ok() && at(&["a", "status"]).is_ok());
        assert_eq!(at(&["a", "b", "status"]), Err(Fate::Kept));
        assert_eq!(at(&["a", "status", "b", "c", "status"]), Err(Fate::Kept));
    }
}
