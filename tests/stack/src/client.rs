//! A small HTTP/1.1 client.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::client::legacy::Client as Connections;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::pieces::Pieces;

/// An HTTP client that reuses its connections; clones share them. It belongs to the tokio runtime that first used it.
#[derive(Debug, Clone)]
pub struct Client {
    connections: Connections<HttpConnector, Pieces>,
    timeout: Duration,
    host: Option<String>,
}

/// A complete response.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    /// Creates a client with a timeout of 60 s for a whole exchange.
    pub fn new() -> Self {
        Self::connecting_by(HttpConnector::new(), usize::MAX)
    }

    /// Creates a client that sends one request at a time, and keeps only one idle connection. Other clients may connect
    /// for a request that another connection then takes, and keep the new connection without using it.
    pub fn sequential() -> Self {
        Self::connecting_by(HttpConnector::new(), 1)
    }

    /// Creates a client whose connections have this source address.
    pub fn at(address: IpAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_local_address(Some(address));
        Self::connecting_by(connector, usize::MAX)
    }

    fn connecting_by(mut connector: HttpConnector, idle: usize) -> Self {
        connector.set_nodelay(true);
        Self {
            connections: Connections::builder(TokioExecutor::new()).pool_max_idle_per_host(idle).build(connector),
            timeout: Duration::from_secs(60),
            host: None,
        }
    }

    /// Returns a client with the same connections and another timeout.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// Returns a client with the same connections that sets this `Host` header on every request.
    #[must_use]
    pub fn asking_for(&self, host: &str) -> Self {
        Self { host: Some(host.to_owned()), ..self.clone() }
    }

    /// Sends any request.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response> {
        self.exchange(request.map(Pieces::whole)).await
    }

    /// Sends any request, with each element of its body as a separate chunk.
    pub async fn send_chunked(&self, request: Request<Vec<Bytes>>) -> Result<Response> {
        self.exchange(request.map(Pieces::chunked)).await
    }

    async fn exchange(&self, mut request: Request<Pieces>) -> Result<Response> {
        if let Some(host) = &self.host {
            request.headers_mut().insert(HOST, host.parse()?);
        }
        let what = format!("{} {}", request.method(), request.uri());
        let exchange = async {
            let response = self.connections.request(request).await?;
            let (head, body) = response.into_parts();
            let body = body.collect().await?.to_bytes();
            anyhow::Ok(Response { status: head.status, headers: head.headers, body })
        };
        match tokio::time::timeout(self.timeout, exchange).await {
            Ok(answer) => answer.with_context(|| what),
            Err(_) => Err(anyhow!("{what}: no answer within {} s", self.timeout.as_secs_f64())),
        }
    }

    /// Sends `GET url`.
    pub async fn get(&self, url: &str) -> Result<Response> {
        self.call(Method::GET, url, None, Bytes::new()).await
    }

    /// Sends `DELETE url`.
    pub async fn delete(&self, url: &str) -> Result<Response> {
        self.call(Method::DELETE, url, None, Bytes::new()).await
    }

    /// Sends `POST url` with a body of the given content type.
    pub async fn post(&self, url: &str, content_type: &str, body: impl Into<Bytes>) -> Result<Response> {
        self.call(Method::POST, url, Some(content_type), body.into()).await
    }

    /// Sends `POST url` with an NDJSON body, as for `_bulk`.
    pub async fn post_ndjson(&self, url: &str, body: impl Into<Bytes>) -> Result<Response> {
        self.post(url, "application/x-ndjson", body).await
    }

    /// Sends `POST url` with a JSON body.
    pub async fn post_json(&self, url: &str, body: &Value) -> Result<Response> {
        self.post(url, "application/json", body.to_string()).await
    }

    /// Sends `PUT url` with a JSON body.
    pub async fn put_json(&self, url: &str, body: &Value) -> Result<Response> {
        self.call(Method::PUT, url, Some("application/json"), body.to_string().into()).await
    }

    /// Sends `GET url` and returns the JSON of the answer, whose status must be 2xx.
    pub async fn get_json(&self, url: &str) -> Result<Value> {
        self.get(url).await?.ok().with_context(|| format!("GET {url}"))?.json()
    }

    async fn call(&self, method: Method, url: &str, content_type: Option<&str>, body: Bytes) -> Result<Response> {
        let mut request = Request::builder().method(method).uri(url);
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        self.send(request.body(body)?).await
    }
}

impl Response {
    /// Parses the body as JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("not JSON: {}", self.text()))
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the response if its status is 2xx, otherwise an error with the body.
    pub fn ok(self) -> Result<Self> {
        if !self.status.is_success() {
            bail!("{}: {}", self.status, self.text());
        }
        Ok(self)
    }
}
