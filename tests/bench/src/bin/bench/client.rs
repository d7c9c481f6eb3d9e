//! A client with minimal overhead: bare HTTP/1.1 over connections that stay open.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The size of the buffer, in bytes. It holds any head, and the whole answer to a small request.
const BUFFER: usize = 64 * 1024;

/// A client that sends one request at a time, over its connections round robin.
pub struct Client {
    connections: Vec<TcpStream>,
    next: usize,
    buffer: Box<[u8]>,
}

/// The outcome of a request.
#[derive(Debug)]
pub enum Answer {
    /// Every operation succeeded.
    Success,
    /// The beginning of the failed response.
    Failure(String),
}

impl Client {
    /// Opens one connection to each address. `first` is the number of the first connection to use, so that clients that
    /// start together use different addresses.
    async fn connect(addresses: &[SocketAddr], first: usize) -> Result<Self> {
        let mut connections = Vec::with_capacity(addresses.len());
        for address in addresses {
            let connection = TcpStream::connect(address).await.with_context(|| format!("cannot reach {address}"))?;
            connection.set_nodelay(true)?;
            connections.push(connection);
        }
        Ok(Self { connections, next: first, buffer: vec![0; BUFFER].into_boxed_slice() })
    }

    /// Opens the connections of `count` clients.
    pub async fn connect_all(addresses: &[SocketAddr], count: usize) -> Result<Vec<Self>> {
        let mut clients = Vec::with_capacity(count);
        for number in 0..count {
            clients.push(Self::connect(addresses, number).await?);
        }
        Ok(clients)
    }

    /// Sends a request, head and body, and reads the whole response.
    pub async fn send(&mut self, request: &[u8]) -> Result<Answer> {
        let place = self.next % self.connections.len();
        self.next = place + 1;
        let connection = self.connections.get_mut(place).context("no connection")?;
        connection.write_all(request).await?;
        read_response(connection, &mut self.buffer).await
    }
}

async fn read_response(connection: &mut TcpStream, buffer: &mut [u8]) -> Result<Answer> {
    let mut filled = 0;
    let head = loop {
        filled += read(connection, buffer.get_mut(filled..).context("a head that is too long")?).await?;
        match ResponseHead::parse(buffer.get(..filled).unwrap_or_default())? {
            Some(head) if filled >= head.needed() => break head,
            _ => {}
        }
    };
    let bytes = buffer.get(..filled).unwrap_or_default();
    let answer = match head.is_success(bytes) {
        true => Answer::Success,
        false => Answer::Failure(String::from_utf8_lossy(bytes).into_owned()),
    };
    let mut missing = (head.length + head.content_length).checked_sub(filled).context("more than one response")?;
    while missing > 0 {
        // The items are not checked here: the cluster's own count of documents is checked afterwards.
        missing = missing.checked_sub(read(connection, buffer).await?).context("more than one response")?;
    }
    Ok(answer)
}

async fn read(connection: &mut TcpStream, buffer: &mut [u8]) -> Result<usize> {
    let count = connection.read(buffer).await?;
    ensure!(count > 0, "the connection was closed before the end of a response");
    Ok(count)
}

const MAX_HEADERS: usize = 32;
/// The status of a request that creates a single document.
const CREATED: u16 = 201;
/// The flags of a bulk request and of a search that succeed. They follow `took` immediately.
const SUCCESS: [&[u8]; 2] = [br#""errors":false"#, br#""timed_out":false"#];
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

    /// Returns whether the response reports that every operation, or the search, succeeded, or that a single document was
    /// created.
    pub fn is_success(&self, bytes: &[u8]) -> bool {
        let beginning = bytes.get(self.length..self.needed()).unwrap_or_default();
        let has = |flag: &&[u8]| memchr::memmem::find(beginning, flag).is_some();
        self.status == CREATED || self.status == 200 && SUCCESS.iter().any(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 36\r\n\r\n{\"took\":3,\"errors\":false,\"items\":[]}";

    #[test]
    fn a_response_is_read_once_its_head_is_complete() {
        for end in 0..39 {
            assert_eq!(ResponseHead::parse(&RESPONSE[..end]).unwrap(), None);
        }
        let head = ResponseHead::parse(RESPONSE).unwrap().unwrap();
        assert_eq!(head, ResponseHead { status: 200, length: 39, content_length: 36 });
        assert_eq!(head.needed(), RESPONSE.len());
        assert!(head.is_success(RESPONSE));
    }

    #[test]
    fn a_search_succeeds_if_it_did_not_time_out() {
        for (flag, expected) in [("false", true), ("true,", false)] {
            let text = format!("HTTP/1.1 200 OK\r\ncontent-length: 28\r\n\r\n{{\"took\":3,\"timed_out\":{flag}}}");
            let head = ResponseHead::parse(text.as_bytes()).unwrap().unwrap();
            assert_eq!(head.is_success(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_single_document_succeeds_if_it_was_created() {
        let text = b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}";
        assert!(ResponseHead::parse(text).unwrap().unwrap().is_success(text));
    }

    #[test]
    fn errors_and_other_statuses_are_failures() {
        let text = String::from_utf8(RESPONSE.to_vec()).unwrap();
        for (from, to) in [("false", "true,"), ("200 OK", "202 OK"), ("errors", "nothing")] {
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
