use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::port;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::fake_cluster::Shared;
use crate::recorded::Recorded;

/// A server on a loopback port, for HTTP/1.1 and HTTP/2. Dropping it closes the port and all connections.
#[derive(Debug)]
pub(crate) struct FakeNode {
    pub(crate) address: SocketAddr,
    serving: JoinHandle<()>,
}

impl FakeNode {
    /// Starts the node with this number.
    pub(crate) async fn start(number: usize, shared: Arc<Shared>) -> Result<Self> {
        Self::start_at(port::loopback(port::free()?), number, shared).await
    }

    /// The same at this address.
    pub(crate) async fn start_at(address: SocketAddr, number: usize, shared: Arc<Shared>) -> Result<Self> {
        let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        Ok(Self { address, serving: tokio::spawn(accept(listener, number, shared)) })
    }

    /// Closes the port and all connections.
    pub(crate) async fn stop(&mut self) {
        self.serving.abort();
        // The error is the one just caused.
        (&mut self.serving).await.ok();
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The connections end with this future: the set aborts what is in it when it is dropped.
async fn accept(listener: TcpListener, number: usize, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        // As clusters do: else the end of a long answer waits for the other side's acknowledgement.
        stream.set_nodelay(true).ok();
        connections.spawn(serve(stream, number, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, number: usize, shared: Arc<Shared>) {
    let service = service_fn(|request| {
        let shared = Arc::clone(&shared);
        async move { shared.answer(record(number, request).await?).await }
    });
    // An error is a client that went away, or a connection that was to be closed.
    let server = auto::Builder::new(TokioExecutor::new());
    server.serve_connection(TokioIo::new(stream), service).await.ok();
}

async fn record(node: usize, request: Request<Incoming>) -> Result<Recorded> {
    let (head, body) = request.into_parts();
    Ok(Recorded {
        node,
        version: head.version,
        method: head.method,
        // HTTP/2 has the whole URI.
        target: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: head.headers,
        body: body.collect().await?.to_bytes(),
    })
}
