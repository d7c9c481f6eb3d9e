use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::wildcard::fits;

/// The parameter `filter_path`: the fields of an answer that a client requests.
///
/// The value is a comma-separated list of patterns: field names joined by dots. `*` matches any part of a name, and the
/// name `**` matches one or more names. A pattern that begins with `-` excludes fields. Arrays do not count as a level.
///
/// The rules are those of `FilterPathBasedFilter`, with which Elasticsearch and OpenSearch filter. Refusals are not
/// filtered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterPath {
    included: Vec<Pattern>,
    excluded: Vec<Pattern>,
}

/// The remainder of the patterns at one place of an answer: the fields that are included, and those of them that are
/// excluded again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection<'a> {
    included: Extent<'a>,
    excluded: Extent<'a>,
}

/// The decision on a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// The value is kept unchanged.
    Kept,
    /// The value is left out.
    Dropped,
    /// In an object or an array, the selected content is kept; if there is none, the value itself is dropped. Any other
    /// value is kept if `scalars`.
    Filtered {
        /// The selection for the content.
        inside: Selection<'a>,
        /// Whether values that are neither objects nor arrays are kept.
        scalars: bool,
    },
}

type Pattern = Vec<Segment>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// The name `**`.
    AnyDepth,
    /// A name, possibly with asterisks.
    Name(String),
}

/// The extent of the patterns at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Extent<'a> {
    Everything,
    Nothing,
    /// The remaining segments of the patterns that match so far. None is empty.
    Inside(Vec<&'a [Segment]>),
}

// The limits of `is_quick` are higher than clients need. Each field of a reply, which may have a million, is compared with
// all patterns.
/// The limit on names of all patterns.
const MAX_SEGMENTS: usize = 50;
/// The limit on bytes of all names.
const MAX_BYTES: usize = 1_000;
/// The limit on asterisks in all names. A field's name is searched for the text after each.
const MAX_ASTERISKS: usize = 25;
/// The limit on `**`. In each field that it matches, two patterns remain of one.
const MAX_ANY_DEPTH: usize = 3;

/// The depth of an item's fields (`items`, the action, the field). Versions treat a deeper exclusion differently: since
/// 8.15 Elasticsearch keeps objects that were empty before it.
const MAX_EXCLUDED: usize = 3;

impl FilterPath {
    /// Parses the parameter's value as it appears in the query. Returns `None` if servers differ on its meaning.
    pub fn parse(value: &str) -> Option<Self> {
        let value = decoded(value)?;
        let mut parsed = Self::default();
        for pattern in value.split(',').filter(|pattern| !pattern.is_empty()) {
            match pattern.strip_prefix('-') {
                Some(pattern) => parsed.excluded.push(exclusion(pattern)?),
                None => parsed.included.push(segments(pattern.trim_matches(' '))?),
            }
        }
        Some(parsed)
    }

    /// Returns whether the patterns are few and short enough for answers with very many fields.
    pub fn is_quick(&self) -> bool {
        let (mut segments, mut bytes, mut asterisks, mut any_depth) = (0_usize, 0_usize, 0_usize, 0_usize);
        for segment in self.included.iter().chain(&self.excluded).flatten() {
            segments = segments.saturating_add(1);
            match segment {
                Segment::AnyDepth => any_depth = any_depth.saturating_add(1),
                Segment::Name(name) => {
                    bytes = bytes.saturating_add(name.len());
                    asterisks = asterisks.saturating_add(name.matches('*').count());
                }
            }
        }
        segments <= MAX_SEGMENTS && bytes <= MAX_BYTES && asterisks <= MAX_ASTERISKS && any_depth <= MAX_ANY_DEPTH
    }

    /// Returns whether an answer stays unchanged.
    pub fn is_empty(&self) -> bool {
        self.included.is_empty() && self.excluded.is_empty()
    }

    /// Returns the selection of an answer's top-level fields.
    pub fn selection(&self) -> Selection<'_> {
        Selection {
            included: Extent::of(&self.included, Extent::Everything),
            excluded: Extent::of(&self.excluded, Extent::Nothing),
        }
    }
}

impl<'a> Selection<'a> {
    /// Returns the decision on the value of a field.
    pub fn field(&self, name: &str) -> Verdict<'a> {
        Self { included: self.included.field(name), excluded: self.excluded.field(name) }.verdict()
    }

    /// Returns the decision on the value that the selection applies to.
    pub fn verdict(self) -> Verdict<'a> {
        match (&self.included, &self.excluded) {
            (Extent::Nothing, _) | (_, Extent::Everything) => Verdict::Dropped,
            (Extent::Everything, Extent::Nothing) => Verdict::Kept,
            (included, _) => Verdict::Filtered { scalars: *included == Extent::Everything, inside: self },
        }
    }
}

impl Verdict<'_> {
    /// Returns whether a value that is neither an object nor an array is kept.
    pub fn keeps_scalars(&self) -> bool {
        match self {
            Self::Kept => true,
            Self::Dropped => false,
            Self::Filtered { scalars, .. } => *scalars,
        }
    }
}

impl<'a> Extent<'a> {
    /// Returns the extent of these patterns at the top level, or `none` if there are none.
    fn of(patterns: &'a [Pattern], none: Self) -> Self {
        if patterns.is_empty() { none } else { Self::Inside(patterns.iter().map(Vec::as_slice).collect()) }
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
            if *segment != Segment::AnyDepth {
                inside.push(rest);
                continue;
            }
            // At the next level, both may lead to the same remainder.
            for next in [pattern, rest] {
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
            // A backslash escapes dots, or in some versions any character.
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

/// Percent-decodes the value as servers do. Returns `None` if servers refuse the value or its encoding is ambiguous.
fn decoded(value: &str) -> Option<Cow<'_, str>> {
    let decoded = percent_decode_str(value).decode_utf8().ok()?;
    // A remaining percent sign was not followed by digits, or was itself encoded.
    (!value.contains('+') && !decoded.contains(|char: char| char == '%' || char.is_control())).then_some(decoded)
}

fn segments(pattern: &str) -> Option<Pattern> {
    // Some versions trim before they check for the sign, some after.
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
    fn rejects_patterns_that_versions_read_differently() {
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
    }

    #[test]
    fn long_lists_are_not_quick() {
        let is_quick = |value: &str| FilterPath::parse(value).unwrap().is_quick();
        for (of, most) in
            [("a.b", MAX_SEGMENTS / 2), ("-a.b", MAX_SEGMENTS / 2), ("*.a", MAX_ASTERISKS), ("**.a", MAX_ANY_DEPTH)]
        {
            assert!(is_quick(&vec![of; most].join(",")), "{of}");
            assert!(!is_quick(&vec![of; most + 1].join(",")), "{of}");
        }
        assert!(is_quick(&"a".repeat(MAX_BYTES)) && !is_quick(&"a".repeat(MAX_BYTES + 1)));
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
    fn any_depth_matches_one_or_more_names() {
        let filter = FilterPath::parse("**.**.status").unwrap();
        let at = |names: &[&str]| {
            names.iter().try_fold(filter.selection(), |selection, name| match selection.field(name) {
                Verdict::Filtered { inside, .. } => Ok(inside),
                verdict => Err(verdict),
            })
        };
        assert!(at(&["status"]).is_ok() && at(&["a", "status"]).is_ok());
        assert_eq!(at(&["a", "b", "status"]), Err(Verdict::Kept));
        assert_eq!(at(&["a", "status", "b", "c", "status"]), Err(Verdict::Kept));
    }
}
