use std::net::SocketAddr;

use anyhow::{Result, ensure};
use bytes::Bytes;
use http_body_util::channel::Channel;
use http_body_util::{BodyExt, channel};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{HeaderMap, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

type Body = Channel<Bytes, std::io::Error>;

/// An HTTP/2 connection without TLS.
#[derive(Debug)]
pub struct Http2Client {
    /// Further headers of each request, which may be repeated.
    pub headers: Vec<(&'static str, &'static str)>,
    to: SocketAddr,
    requests: SendRequest<Body>,
    connection: JoinHandle<hyper::Result<()>>,
}

impl Http2Client {
    pub async fn connect(to: SocketAddr) -> Result<Self> {
        let stream = TokioIo::new(TcpStream::connect(to).await?);
        let (requests, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        Ok(Self { headers: Vec::new(), to, requests, connection: tokio::spawn(connection) })
    }

    /// Sends a bulk request with its body in frames of this size, optionally with trailers. Returns the answer, which
    /// must be 200.
    pub async fn bulk(&mut self, path: &str, body: &[u8], frame: usize, trailers: Option<HeaderMap>) -> Result<Value> {
        let request = Request::post(format!("http://{}{path}", self.to)).header("content-type", "application/x-ndjson");
        let request = self.headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let (sender, receiver) = Channel::new(1);
        let exchange = self.requests.send_request(request.body(receiver)?);
        let (sent, response) = tokio::join!(send_body(sender, body, frame, trailers), exchange);
        sent?;
        let (head, body) = response?.into_parts();
        let body = body.collect().await?.to_bytes();
        ensure!(head.status == 200, "{}: {}", head.status, String::from_utf8_lossy(&body));
        Ok(serde_json::from_slice(&body)?)
    }
}

async fn send_body(
    mut sender: channel::Sender<Bytes, std::io::Error>,
    body: &[u8],
    frame: usize,
    trailers: Option<HeaderMap>,
) -> Result<()> {
    for piece in body.chunks(frame) {
        sender.send_data(Bytes::copy_from_slice(piece)).await?;
    }
    if let Some(trailers) = trailers {
        sender.send_trailers(trailers).await?;
    }
    Ok(())
}

impl Drop for Http2Client {
    fn drop(&mut self) {
        self.connection.abort();
    }
}
