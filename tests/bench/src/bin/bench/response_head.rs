//! The head of a response, and the beginning of its body.

use anyhow::{Context, Result, bail};

const MAX_HEADERS: usize = 32;
/// The error flag, which follows `took` immediately.
const NO_ERRORS: &[u8] = br#""errors":false"#;
const FLAG_WITHIN: usize = 64;

/// The status of a response, and the range of its body.
#[derive(Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code.
    pub status: u16,
    /// The length of the head, in bytes.
    pub length: usize,
    /// The length of the body, in bytes.
    pub content_length: usize,
}

impl ResponseHead {
    /// Parses the head at the beginning of the bytes. Returns `None` if it is incomplete.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(length) = response.parse(bytes)? else { return Ok(None) };
        let status = response.code.context("no status")?;
        let content_length = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
        let Some(content_length) = content_length else { bail!("status {status}, but no content-length") };
        let content_length = std::str::from_utf8(content_length.value)?.trim().parse()?;
        Ok(Some(Self { status, length, content_length }))
    }

    /// Returns how many bytes of head and body [`ResponseHead::is_success`] needs.
    pub fn needed(&self) -> usize {
        self.length + self.content_length.min(FLAG_WITHIN)
    }

    /// Returns whether the response reports that every operation succeeded.
    pub fn is_success(&self, bytes: &[u8]) -> bool {
        let beginning = bytes.get(self.length..self.needed()).unwrap_or_default();
        self.status == 200 && memchr::memmem::find(beginning, NO_ERRORS).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUCCESS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 36\r\n\r\n{\"took\":3,\"errors\":false,\"items\":[]}";

    #[test]
    fn a_response_is_read_once_its_head_is_complete() {
        for end in 0..39 {
            assert_eq!(ResponseHead::parse(&SUCCESS[..end]).unwrap(), None);
        }
        let head = ResponseHead::parse(SUCCESS).unwrap().unwrap();
        assert_eq!(head, ResponseHead { status: 200, length: 39, content_length: 36 });
        assert_eq!(head.needed(), SUCCESS.len());
        assert!(head.is_success(SUCCESS));
    }

    #[test]
    fn errors_and_other_statuses_are_failures() {
        let text = String::from_utf8(SUCCESS.to_vec()).unwrap();
        for (from, to) in [("false", "true,"), ("200 OK", "201 OK"), ("errors", "nothing")] {
            let text = text.replace(from, to);
            let head = ResponseHead::parse(text.as_bytes()).unwrap().unwrap();
            assert!(!head.is_success(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_body_of_unknown_length_is_an_error() {
        let error = ResponseHead::parse(b"HTTP/1.1 200 OK\r\n\r\n").unwrap_err();
        assert_eq!(error.to_string(), "status 200, but no content-length");
    }
}
