//! A client with minimal overhead: bare HTTP/1.1 over connections that stay open.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::response_head::ResponseHead;

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
