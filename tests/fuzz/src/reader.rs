use bulk_reshuffle::bulk::{Action, ActionLine, Body, Operation, Placement, ReadError, Reader};
use bulk_reshuffle::routing::hash;
use serde_json::Value;

use crate::pieces::cut;

/// Checks a bulk body, after a line with the sizes of its pieces.
///
/// The result must be the same for any pieces. Accepted operations must cover everything except blank lines, and must
/// read the same again in a batch. An independent JSON reader must find the same values in their lines.
pub fn reader(input: &[u8]) {
    let (pieces, whole) = cut(input);
    let read = Read::of(&pieces);
    assert_eq!(read, Read::of(&[whole]), "the pieces make a difference");
    check_order(&read.operations, whole);
    for ((operation, line), text) in read.operations.iter().zip(&read.lines).zip(read.texts(whole)) {
        check_operation(operation, line, text);
    }
    if read.verdict.is_ok() {
        check_completeness(&read.operations, whole);
        check_batch(&read, whole);
    }
}

/// The result of reading a body.
#[derive(Debug, PartialEq)]
struct Read {
    verdict: Result<(), ReadError<()>>,
    operations: Vec<Operation>,
    /// The action lines that the reader reported, possibly one more than there are operations.
    lines: Vec<Line>,
}

/// An owned action line.
#[derive(Debug, PartialEq)]
struct Line {
    action: Action,
    index: Option<String>,
    id: Option<String>,
    routing: Option<String>,
    pipeline: Option<String>,
}

impl Read {
    fn of(pieces: &[&[u8]]) -> Self {
        let mut read = Self { verdict: Ok(()), operations: Vec::new(), lines: Vec::new() };
        let (mut body, mut reader) = (Body::default(), Reader::default());
        for piece in pieces {
            body.push(piece.to_vec());
            let lines = &mut read.lines;
            read.verdict = reader.read(&body, &mut read.operations, |line, _| Ok(place(line, lines)));
            if read.verdict.is_err() {
                return read;
            }
        }
        read.verdict = reader.finish(&body, &read.operations);
        assert_eq!(body.into_chunks().concat(), pieces.concat(), "the body differs from the input");
        read
    }

    /// Returns the lines of each operation.
    fn texts<'a>(&self, whole: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let ranges: Vec<_> = self.operations.iter().map(Operation::range).collect();
        ranges.into_iter().map(|range| &whole[range.start as usize..range.end as usize])
    }
}

fn place(line: &ActionLine<'_>, lines: &mut Vec<Line>) -> Placement {
    let own = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().map(str::to_owned);
    let ActionLine { action, index, id, routing, pipeline, .. } = line;
    let pipeline = pipeline.map(str::to_owned);
    lines.push(Line { action: *action, index: own(index), id: own(id), routing: own(routing), pipeline });
    Placement { id_hash: id.as_deref().map(hash), share: 0, under_pipeline: false, is_located: false }
}

/// Checks that each operation begins where the previous one ended, or after blank lines.
fn check_order(operations: &[Operation], whole: &[u8]) {
    let mut end = 0;
    for range in operations.iter().map(Operation::range) {
        assert!(is_blank(&whole[end..range.start as usize]), "something is left out before {range:?}");
        end = range.end as usize;
    }
}

fn check_completeness(operations: &[Operation], whole: &[u8]) {
    let last = operations.last().expect("an empty body was accepted");
    assert!(is_blank(&whole[last.range().end as usize..]), "something is left out at the end");
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.trim_ascii().is_empty()
}

fn check_operation(operation: &Operation, line: &Line, text: &[u8]) {
    let lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), 1 + usize::from(operation.action.has_source()), "{operation:?}");
    assert!(text.ends_with(b"\n"), "{operation:?}");
    assert_eq!((operation.action, operation.placement.id_hash), (line.action, line.id.as_deref().map(hash)));
    let value: Value = serde_json::from_slice(lines[0]).expect("an action line that is not JSON was accepted");
    let parameters = &value[line.action.name()];
    assert!(value.as_object().is_some_and(|actions| actions.len() == 1) && parameters.is_object(), "{value}");
    for (name, found) in
        [("_index", &line.index), ("_id", &line.id), ("routing", &line.routing), ("pipeline", &line.pipeline)]
    {
        let given = parameters.get(name).filter(|value| !value.is_null());
        let given = given.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        assert_eq!(found, &given, "{name} in {value}");
    }
    check_precondition(operation, parameters);
    if line.action == Action::Update {
        let body: Value = serde_json::from_slice(lines[1]).expect("an update that is not JSON was accepted");
        assert!(body["doc"].is_object() != body["script"].is_object(), "{body}");
    }
}

/// Checks that versions and sequence numbers are complete, and that an operation that has one is known to be
/// conditional.
fn check_precondition(operation: &Operation, parameters: &Value) {
    let given = |name: &str| parameters.get(name).filter(|value| !value.is_null());
    let external = given("version_type").filter(|version_type| *version_type != "internal");
    assert_eq!(given("version").is_some(), external.is_some(), "{parameters}");
    assert_eq!(given("if_seq_no").is_some(), given("if_primary_term").is_some(), "{parameters}");
    assert!(external.is_none() || given("if_seq_no").is_none(), "{parameters}");
    let is_conditional =
        given("if_seq_no").is_some() || external.is_some_and(|version_type| version_type != "external_gte");
    assert_eq!(operation.is_conditional, is_conditional, "{parameters}");
    let has_precondition = external.is_some() || is_conditional;
    assert!(!has_precondition || given("_id").is_some() && operation.action != Action::Create, "{parameters}");
}

/// Checks that a batch of these operations reads like the originals.
fn check_batch(read: &Read, whole: &[u8]) {
    let texts: Vec<_> = read.texts(whole).collect();
    let again = Read::of(&[texts.concat().as_slice()]);
    assert_eq!((again.verdict, &again.lines), (Ok(()), &read.lines));
    assert_eq!(again.texts(&texts.concat()).collect::<Vec<_>>(), texts);
}
