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

    /// Starts the node with this number at this address.
    pub(crate) async fn start_at(address: SocketAddr, number: usize, shared: Arc<Shared>) -> Result<Self> {
        let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        Ok(Self { address, serving: tokio::spawn(accept(listener, number, shared)) })
    }

    /// Closes the port and all connections.
    pub(crate) async fn stop(&mut self) {
        self.serving.abort();
        // The only possible error is the abort above.
        (&mut self.serving).await.ok();
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Accepts connections. They end with this future: dropping the set aborts its tasks.
async fn accept(listener: TcpListener, number: usize, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        // As clusters do. Otherwise the end of a long answer waits for the other side's acknowledgement.
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
    // An error means that the client disconnected, or that the script closes the connection.
    let server = auto::Builder::new(TokioExecutor::new());
    server.serve_connection(TokioIo::new(stream), service).await.ok();
}

async fn record(node: usize, request: Request<Incoming>) -> Result<Recorded> {
    let (head, body) = request.into_parts();
    Ok(Recorded {
        node,
        version: head.version,
        method: head.method,
        // In HTTP/2 this is the whole URI.
        target: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: head.headers,
        body: body.collect().await?.to_bytes(),
    })
}
