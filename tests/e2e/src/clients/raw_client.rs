use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LIMIT: Duration = Duration::from_secs(20);

/// A TCP connection that sends requests as no proper HTTP client does.
#[derive(Debug)]
pub struct RawClient {
    stream: TcpStream,
}

impl RawClient {
    /// Connects. Each write is sent immediately and on its own.
    pub async fn connect(to: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream })
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.stream.write_all(bytes.as_ref()).await.context("cannot send")
    }

    /// Sends a bulk request's head. `framing` is `content-length: …` or `transfer-encoding: chunked`.
    pub async fn send_head(&mut self, path: &str, framing: &str) -> Result<()> {
        let head = "host: fake\r\ncontent-type: application/x-ndjson\r\nconnection: close";
        self.send(format!("POST {path} HTTP/1.1\r\n{head}\r\n{framing}\r\n\r\n")).await
    }

    /// Sends a whole bulk request, its body in pieces whose sizes cycle through this list.
    pub async fn send_in_pieces(&mut self, path: &str, body: &[u8], sizes: &[usize]) -> Result<()> {
        self.send_head(path, &format!("content-length: {}", body.len())).await?;
        let mut rest = body;
        for size in sizes.iter().cycle() {
            let Some((piece, after)) = rest.split_at_checked((*size).min(rest.len())) else { break };
            if piece.is_empty() {
                break;
            }
            self.send(piece).await?;
            rest = after;
            // Otherwise the kernel may coalesce several pieces.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    pub async fn send_chunk(&mut self, piece: &[u8]) -> Result<()> {
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(piece);
        chunk.extend_from_slice(b"\r\n");
        self.send(chunk).await
    }

    /// Sends a whole bulk request, its body in chunks of this size. `end` is the last chunk, which may have trailers.
    pub async fn send_in_chunks(&mut self, path: &str, body: &[u8], size: usize, end: &str) -> Result<()> {
        self.send_head(path, "transfer-encoding: chunked").await?;
        for piece in body.chunks(size) {
            self.send_chunk(piece).await?;
        }
        self.send(end).await
    }

    /// Reads a whole response, which must be 200, until the connection closes. Returns its JSON.
    pub async fn json(mut self) -> Result<Value> {
        let text = self.read_to_end().await?;
        let (head, body) = text.split_once("\r\n\r\n").with_context(|| format!("not a response: {text:?}"))?;
        ensure!(head.starts_with("HTTP/1.1 200 "), "{text}");
        ensure!(!head.contains("chunked"), "the response is chunked: {text}");
        serde_json::from_str(body).with_context(|| format!("not JSON: {body:?}"))
    }

    /// Reads until these words have arrived. Returns all text read so far.
    pub async fn read_until(&mut self, words: &str) -> Result<String> {
        let mut text = Vec::new();
        let read = async {
            while !String::from_utf8_lossy(&text).contains(words) {
                ensure!(self.stream.read_buf(&mut text).await? > 0, "the connection ended");
            }
            Ok(())
        };
        tokio::time::timeout(LIMIT, read).await.with_context(|| format!("timed out waiting for {words:?}"))??;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    pub async fn read_to_end(&mut self) -> Result<String> {
        let mut bytes = Vec::new();
        tokio::time::timeout(LIMIT, self.stream.read_to_end(&mut bytes))
            .await
            .context("timed out: the connection is still open")??;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
