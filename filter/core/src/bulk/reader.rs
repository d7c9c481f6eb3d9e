use std::ops::Range;

use super::update_body::{Change, accepted_everywhere};
use super::{Action, ActionLine, Body, LineError, Operation, Placement};
use crate::invariant::Count;

/// The reason why offsets cannot overflow.
const OFFSETS: &str = "a body has fewer than 4 GiB";

/// The longest action line that the reader accepts, in bytes. A fully escaped id of 512 bytes fits several times.
pub const MAX_ACTION_LINE: u32 = 8 * 1024;

/// The longest body of an update, in bytes, with its line end. It is read as one text, so this bounds a copy and the
/// time of a callback. Some JSON readers refuse strings of more than 20 MB.
const MAX_UPDATE_BODY: usize = 1_000_000;

/// Finds the operations of a body while it arrives.
///
/// Call [`read`](Self::read) after each chunk and [`finish`](Self::finish) after the last. Each byte is scanned once
/// for its newline. Only the lines that the cluster's coordinating node would parse (action lines and the bodies of
/// updates) are parsed. They are copied only if they cross a chunk boundary.
#[derive(Debug, Default)]
pub struct Reader {
    expected: Expected,
    /// The offset of the current line.
    line_start: u32,
    /// The offset up to which newlines have been found.
    scanned: u32,
    scratch: Vec<u8>,
    /// Whether a script in an update is not acceptable.
    has_no_scripts: bool,
}

#[derive(Debug, Clone, Copy, Default)]
enum Expected {
    #[default]
    ActionLine,
    /// The source line of an operation, of which only the length is missing.
    Source(Operation),
}

/// The reason why the filter does not vouch for a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError<E> {
    /// An action line is not acceptable.
    #[error("the action line at byte {at} is not vouched for")]
    Line {
        /// The offset of the line.
        at: u32,
    },
    /// The body of an update is not acceptable.
    #[error("the update's body at byte {at} is not vouched for")]
    UpdateBody {
        /// The offset of the line.
        at: u32,
    },
    /// The body ends without a newline, or without the source line of its last operation.
    #[error("the body ends in the middle of an operation")]
    Incomplete,
    /// The body holds no operation.
    #[error("the body holds no operation")]
    Empty,
    /// The caller rejected an operation.
    #[error("the operation at byte {at} cannot be placed")]
    Placement {
        /// The offset of the operation's action line.
        at: u32,
        /// The caller's reason.
        why: E,
    },
}

impl Reader {
    /// Creates a reader of a body in which updates have no scripts.
    pub fn without_scripts() -> Self {
        Self { has_no_scripts: true, ..Self::default() }
    }

    /// Reads the part of the body that is new, and appends the complete operations to `operations`. Calls `place` with
    /// each action line and its offset as soon as the line is complete. Fails at the first line that is not acceptable,
    /// or if `place` fails.
    pub fn read<E>(
        &mut self,
        body: &Body,
        operations: &mut Vec<Operation>,
        mut place: impl FnMut(&ActionLine<'_>, u32) -> Result<Placement, E>,
    ) -> Result<(), ReadError<E>> {
        let mut offset = self.scanned;
        for piece in body.pieces(self.scanned..body.len()) {
            for newline in memchr::memchr_iter(b'\n', piece) {
                let end = offset.plus(newline as u32, OFFSETS).plus(1, OFFSETS);
                self.line(body, self.line_start..end, operations, &mut place)?;
                self.line_start = end;
            }
            offset = offset.plus(piece.len() as u32, OFFSETS);
        }
        self.scanned = offset;
        self.check_length()
    }

    /// Returns the offset of the next line, or of the line that was not acceptable.
    pub fn line_start(&self) -> u32 {
        self.line_start
    }

    /// Checks the end of the body, after the last chunk. Fails if the body is incomplete or empty.
    pub fn finish<E>(&self, body: &Body, operations: &[Operation]) -> Result<(), ReadError<E>> {
        match self.expected {
            Expected::ActionLine if self.line_start == body.len() => match operations {
                [] => Err(ReadError::Empty),
                _ => Ok(()),
            },
            _ => Err(ReadError::Incomplete),
        }
    }

    /// Checks that an unfinished action line is not too long.
    fn check_length<E>(&self) -> Result<(), ReadError<E>> {
        let length = self.scanned.minus(self.line_start, "a line starts within what was read");
        match self.expected {
            Expected::ActionLine if length > MAX_ACTION_LINE => Err(ReadError::Line { at: self.line_start }),
            _ => Ok(()),
        }
    }

    fn line<E>(
        &mut self,
        body: &Body,
        line: Range<u32>,
        operations: &mut Vec<Operation>,
        place: &mut impl FnMut(&ActionLine<'_>, u32) -> Result<Placement, E>,
    ) -> Result<(), ReadError<E>> {
        match self.expected {
            Expected::ActionLine => {
                let Some(operation) = self.action_line(body, line, place)? else { return Ok(()) };
                match operation.action.has_source() {
                    true => self.expected = Expected::Source(operation),
                    false => operations.push(operation),
                }
            }
            Expected::Source(operation) => {
                if operation.action == Action::Update {
                    if line.len() > MAX_UPDATE_BODY {
                        return Err(ReadError::UpdateBody { at: line.start });
                    }
                    let update = body.contiguous(line.clone(), &mut self.scratch);
                    let change = accepted_everywhere(update, operation.is_conditional);
                    if change.is_none_or(|change| self.has_no_scripts && change == Change::Script) {
                        return Err(ReadError::UpdateBody { at: line.start });
                    }
                    // A long copy must not stay, because the memory account does not have it.
                    if self.scratch.capacity() > MAX_ACTION_LINE as usize {
                        self.scratch = Vec::new();
                    }
                }
                let len = line.end.minus(operation.start, "a source follows its action line");
                operations.push(Operation { len, ..operation });
                self.expected = Expected::ActionLine;
            }
        }
        Ok(())
    }

    /// Reads an action line. Returns `None` for a blank line: where an action line is expected, a cluster skips it.
    fn action_line<E>(
        &mut self,
        body: &Body,
        line: Range<u32>,
        place: &mut impl FnMut(&ActionLine<'_>, u32) -> Result<Placement, E>,
    ) -> Result<Option<Operation>, ReadError<E>> {
        let (at, len) = (line.start, line.len() as u32);
        if line.len() > MAX_ACTION_LINE as usize {
            return Err(ReadError::Line { at });
        }
        let bytes = body.contiguous(line, &mut self.scratch);
        if bytes.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
            return Ok(None);
        }
        let line = ActionLine::read(bytes).map_err(|LineError| ReadError::Line { at })?;
        let placement = place(&line, at).map_err(|why| ReadError::Placement { at, why })?;
        let ActionLine { action, is_conditional, .. } = line;
        Ok(Some(Operation { start: at, len, placement, action, is_conditional }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = concat!(
        "{\"index\":{\"_id\":\"1\"}}\n{\"a\":1}\n",
        "\r\n",
        "{\"delete\":{\"_id\":\"2\"}}\r\n",
        "{\"create\":{}}\n\n",
        "{\"update\":{\"_id\":\"3\"}}\n{\"doc\":{\"b\":\"é\"}}\n",
    );

    const PLACEMENT: Placement = Placement { id_hash: None, share: 0, under_pipeline: false, is_located: false };

    type Found = Vec<(Action, String, Option<String>)>;

    /// Reads a body in chunks of the given sizes.
    fn read(body: &[u8], sizes: impl IntoIterator<Item = usize>) -> Result<Found, ReadError<()>> {
        let (mut whole, mut reader, mut operations) = (Body::default(), Reader::default(), Vec::new());
        let mut ids = Vec::new();
        let mut rest = body;
        let mut sizes = sizes.into_iter();
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(sizes.next().unwrap_or(usize::MAX).min(rest.len()));
            rest = after;
            whole.push(chunk.to_vec());
            reader.read(&whole, &mut operations, |line, _| {
                ids.push(line.id.as_deref().map(str::to_owned));
                Ok(PLACEMENT)
            })?;
        }
        reader.finish(&whole, &operations)?;
        Ok(operations
            .iter()
            .zip(ids)
            .map(|(operation, id)| {
                let mut text = Vec::new();
                whole.copy_to(operation.range(), &mut text);
                (operation.action, String::from_utf8(text).unwrap(), id)
            })
            .collect())
    }

    #[test]
    fn finds_the_operations_with_their_lines() {
        let expected = [
            (Action::Index, "{\"index\":{\"_id\":\"1\"}}\n{\"a\":1}\n", Some("1")),
            (Action::Delete, "{\"delete\":{\"_id\":\"2\"}}\r\n", Some("2")),
            (Action::Create, "{\"create\":{}}\n\n", None),
            (Action::Update, "{\"update\":{\"_id\":\"3\"}}\n{\"doc\":{\"b\":\"é\"}}\n", Some("3")),
        ];
        let expected: Found =
            expected.map(|(action, text, id)| (action, text.to_owned(), id.map(str::to_owned))).to_vec();
        assert_eq!(read(BODY.as_bytes(), []).unwrap(), expected);
    }

    #[test]
    fn finds_the_same_operations_for_any_chunk_boundaries() {
        let whole = read(BODY.as_bytes(), []).unwrap();
        for first in 1..BODY.len() {
            assert_eq!(read(BODY.as_bytes(), [first]).unwrap(), whole, "cut at {first}");
            assert_eq!(read(BODY.as_bytes(), std::iter::repeat(first)).unwrap(), whole, "every {first}");
        }
    }

    #[test]
    fn a_body_that_ends_in_the_middle_is_incomplete() {
        assert_eq!(read(b"{\"delete\":{\"_id\":\"2\"}}", []), Err(ReadError::Incomplete));
        assert_eq!(read(b"{\"index\":{}}\n", []), Err(ReadError::Incomplete));
        assert_eq!(read(b"{\"index\":{}}\n{}", []), Err(ReadError::Incomplete));
        assert_eq!(read(b"", []), Err(ReadError::Empty));
        assert_eq!(read(b"\n \r\n", []), Err(ReadError::Empty));
    }

    #[test]
    fn only_json_space_makes_a_blank_line() {
        let with = |blank: &str| read(format!("{{\"delete\":{{\"_id\":\"1\"}}}}\n{blank}\n").as_bytes(), []);
        assert!(with(" \t\r ").is_ok());
        for other in ["\u{b}", "\u{c}", " \u{c}\r", "\0", "\u{1c}", "\u{a0}", "\u{feff}"] {
            assert!(with(other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn reports_the_offset_of_the_fault() {
        let good = "{\"index\":{}}\n{}\n";
        let at = good.len() as u32;
        let read = |line: &str| read(format!("{good}{line}").as_bytes(), []).unwrap_err();
        assert_eq!(read("{}\n"), ReadError::Line { at });
        assert_eq!(read("{\"update\":{\"_id\":\"1\"}}\n[]\n"), ReadError::UpdateBody { at: at + 23 });
    }

    #[test]
    fn an_unfinished_action_line_is_bounded() {
        let delete = b"{\"delete\":{\"_id\":\"1\"}}";
        let mut longest = vec![b' '; 8 * 1024 - delete.len() - 1];
        longest.extend_from_slice(delete);
        longest.push(b'\n');
        assert_eq!(read(&longest, []).unwrap().len(), 1);
        assert_eq!(read(&longest, [longest.len() - 1]).unwrap().len(), 1);
        longest.insert(0, b' ');
        assert!(read(&longest, []).is_err());
        let endless = vec![b' '; MAX_ACTION_LINE as usize + 1];
        assert_eq!(read(&endless, [100; 100]), Err(ReadError::Line { at: 0 }));
        let mut long = endless;
        long.extend_from_slice(b"{\"delete\":{\"_id\":\"1\"}}\n");
        assert_eq!(read(&long, []), Err(ReadError::Line { at: 0 }));
    }

    #[test]
    fn the_source_of_an_index_operation_may_be_anything() {
        let body = b"{\"index\":{}}\n\xff\0 not json\n{\"index\":{}}\n\n";
        assert_eq!(read_lengths(body), [body.len() as u32 - 14, 14]);
    }

    fn read_lengths(bytes: &[u8]) -> Vec<u32> {
        let (mut body, mut operations) = (Body::default(), Vec::new());
        body.push(bytes.to_vec());
        let place = |_: &ActionLine<'_>, _| {
            Ok::<_, ()>(Placement { id_hash: None, share: 0, under_pipeline: false, is_located: false })
        };
        Reader::default().read(&body, &mut operations, place).unwrap();
        operations.iter().map(|operation| operation.len).collect()
    }

    #[test]
    fn an_update_body_has_a_limited_length_and_leaves_no_copy() {
        let body = |length: usize| {
            format!(
                "{{\"update\":{{\"_id\":\"1\"}}}}\n{{\"doc\":{{}}}}{}\n",
                " ".repeat(length - "{\"doc\":{}}\n".len())
            )
        };
        let (longest, too_long) = (body(MAX_UPDATE_BODY), body(MAX_UPDATE_BODY + 1));
        let half = longest.len() / 2;
        assert_eq!(read(longest.as_bytes(), [half]).unwrap().len(), 1);
        assert_eq!(read(too_long.as_bytes(), [half]), Err(ReadError::UpdateBody { at: 23 }));
        let (mut whole, mut reader) = (Body::default(), Reader::default());
        for chunk in [&longest[..half], &longest[half..]] {
            whole.push(chunk.as_bytes().to_vec());
            reader.read::<()>(&whole, &mut Vec::new(), |_, _| Ok(PLACEMENT)).unwrap();
        }
        assert!(reader.scratch.capacity() <= MAX_ACTION_LINE as usize);
    }
}
