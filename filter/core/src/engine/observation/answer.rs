//! Reads the answers to observed requests, to learn why operations failed.

use crate::bulk::{Answer, Inflater};

/// The answer to an observed request, which passes by.
#[derive(Debug)]
pub enum PassingAnswer {
    /// The part that has arrived. It may tell of failures.
    Arriving {
        /// The part, inflated.
        body: Vec<u8>,
        /// Inflates a gzip answer.
        inflater: Option<Box<Inflater>>,
    },
    /// Its beginning says that nothing has failed, so the rest is not read.
    Succeeded,
    /// It is too large, or not readable.
    Unread,
}

/// What an answer tells of failures.
#[derive(Debug)]
pub enum Told {
    /// No operation has failed.
    Success,
    /// The answer has an item for each operation, or it was not known how many there are.
    Items(Answer),
    /// The request was refused as a whole, with this type of error, or with this status if the answer names no type.
    Refusal(String),
    /// Unknown.
    Nothing,
}

/// The most bytes of an answer that are read, inflated. A node answers an operation with 150 to 300 bytes.
const MAX_ANSWER: usize = 4 << 20;

/// The first bytes of a gzip body. JSON cannot begin with them.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// The length of the shortest item, in bytes: `{"index":{"status":1}},`.
const SHORTEST_ITEM: usize = 22;

impl Default for PassingAnswer {
    fn default() -> Self {
        Self::Arriving { body: Vec::new(), inflater: None }
    }
}

impl PassingAnswer {
    /// Returns whether the rest is to be read.
    #[inline]
    pub fn reads_on(&self) -> bool {
        matches!(self, Self::Arriving { .. })
    }

    /// Reads a chunk, if there is room for these bytes.
    pub fn take(&mut self, chunk: &[u8], room: u64) {
        let Self::Arriving { body, inflater } = self else { return };
        if body.is_empty() && inflater.is_none() && chunk.starts_with(GZIP) {
            *inflater = Some(Box::default());
        }
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(MAX_ANSWER.saturating_sub(body.len()));
        let is_read = match inflater {
            Some(inflater) => inflate(inflater, chunk, body, room),
            None if chunk.len() > room => false,
            None => {
                body.extend_from_slice(chunk);
                true
            }
        };
        if !is_read {
            *self = Self::Unread;
        } else if Answer::begins_with_success(body) {
            *self = Self::Succeeded;
        }
    }

    /// Returns what an answer with this status tells; the status is 0 if there is no answer. `operations` is their number,
    /// if it is known.
    pub fn tell(self, status: u16, operations: Option<usize>) -> Told {
        let is_refusal = !(200..300).contains(&status) && status > 0;
        match self {
            Self::Succeeded => Told::Success,
            Self::Arriving { body, .. } if is_refusal => {
                Told::Refusal(Answer::refusal_type(&body).unwrap_or_else(|| status.to_string()))
            }
            Self::Unread if is_refusal => Told::Refusal(status.to_string()),
            Self::Arriving { body, .. } => {
                let most = operations.unwrap_or(body.len() / SHORTEST_ITEM);
                let answer = Answer::read_own(body, most).ok();
                let is_whole = |answer: &Answer| operations.is_none_or(|operations| answer.items.len() == operations);
                answer.filter(is_whole).map_or(Told::Nothing, Told::Items)
            }
            Self::Unread => Told::Nothing,
        }
    }

    /// Returns about how many bytes it uses.
    pub fn memory(&self) -> u64 {
        match self {
            Self::Arriving { body, inflater } => {
                (body.capacity() as u64).saturating_add(inflater.as_ref().map_or(0, |_| Inflater::MEMORY))
            }
            Self::Succeeded | Self::Unread => 0,
        }
    }
}

/// Inflates a chunk. Returns whether it is gzip, and there was room for all of it.
fn inflate(inflater: &mut Inflater, mut chunk: &[u8], body: &mut Vec<u8>, room: usize) -> bool {
    let most = body.len().saturating_add(room);
    loop {
        match inflater.inflate(&mut chunk, most.saturating_sub(body.len())) {
            Ok(piece) if piece.is_empty() => return true,
            Ok(piece) => body.extend_from_slice(&piece),
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: &str = r#"{"took":3,"errors":true,"items":[{"index":{"_index":"i","_id":"1","status":201}},{"create":
        {"_index":"i","_id":"2","status":409,"error":{"type":"version_conflict_engine_exception","reason":"r"}}}]}"#;

    fn read(body: &[u8], by: usize, room: u64) -> PassingAnswer {
        let mut answer = PassingAnswer::default();
        for chunk in body.chunks(by) {
            answer.take(chunk, room);
        }
        answer
    }

    fn types(told: Told) -> Vec<Option<String>> {
        match told {
            Told::Items(answer) => answer.items.iter().map(|item| answer.error_type(item)).collect(),
            Told::Refusal(name) => vec![Some(name)],
            Told::Success => Vec::new(),
            Told::Nothing => vec![None],
        }
    }

    #[test]
    fn failures_are_read_from_plain_and_compressed_answers_in_any_chunks() {
        let conflict = [None, Some("version_conflict_engine_exception".to_owned())];
        for body in [FAILED.as_bytes().to_vec(), crate::bulk::gzip(FAILED.as_bytes())] {
            for by in [2, 7, 10_000] {
                assert_eq!(types(read(&body, by, 10_000).tell(200, Some(2))), conflict);
                assert_eq!(types(read(&body, by, 10_000).tell(200, None)), conflict);
            }
        }
    }

    #[test]
    fn the_rest_of_a_success_is_not_read() {
        for body in
            [r#"{"took":3,"ingest_took":1,"errors":false,"#, r#"{"errors":false}"#, r#"{"errors":false,"took":3"#]
        {
            let answer = read(body.as_bytes(), 5, 10_000);
            assert!(!answer.reads_on() && answer.memory() == 0, "{body}");
            assert_eq!(types(answer.tell(200, Some(5))), []);
        }
        assert!(read(br#"{"took":3,"errors":true,"items":["#, 5, 10_000).reads_on());
    }

    #[test]
    fn a_refusal_has_its_type_or_its_status() {
        let refusal =
            br#"{"error":{"root_cause":[],"type":"es_rejected_execution_exception","reason":"r"},"status":429}"#;
        let refused = |body: &[u8], room| types(read(body, 10_000, room).tell(429, None));
        assert_eq!(refused(refusal, 10_000), [Some("es_rejected_execution_exception".to_owned())]);
        for (body, room) in [(&refusal[..], 20), (b"no upstream", 100), (b"", 100), (br#"{"error":"text"}"#, 100)] {
            assert_eq!(refused(body, room), [Some("429".to_owned())]);
        }
    }

    #[test]
    fn nothing_is_known_of_answers_that_are_too_large_or_incomplete() {
        for (body, room, operations) in [
            (FAILED.as_bytes(), 100, 2),
            (FAILED.as_bytes(), 10_000, 3),
            (&FAILED.as_bytes()[..100], 10_000, 2),
            (b"\x1f\x8b damaged", 10_000, 2),
            (b"", 10_000, 2),
        ] {
            assert_eq!(types(read(body, 10_000, room).tell(200, Some(operations))), [None]);
        }
        assert_eq!(types(PassingAnswer::default().tell(0, Some(1))), [None]);
        let large = [FAILED.as_bytes(), &vec![b' '; MAX_ANSWER]].concat();
        assert!(!read(&large, 1 << 20, u64::MAX).reads_on());
    }
}
