//! TCP servers, and relays in front of other servers.

mod server;
mod wiretap;

use std::io;
use std::net::SocketAddr;

use anyhow::Result;
use bulk_reshuffle_stack::port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

pub(crate) use server::Server;
pub use wiretap::Wiretap;

/// A TCP relay in front of other servers. Dropping it closes the port and all connections.
#[derive(Debug)]
pub struct Relay {
    pub address: SocketAddr,
    _server: Server,
}

/// The sender of bytes that a relay has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    Client,
    Server,
}

/// What a relay does with bytes that it has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    /// Passes this many bytes on, and resets the connection to the receiver.
    Cut(usize),
}

impl Relay {
    /// Starts a relay at this address.
    ///
    /// `target` chooses the server of a new connection; without one, the connection is closed. `watch` is called when
    /// that server is connected. It returns the function that decides about the bytes of the connection.
    pub async fn start_at<W>(
        address: SocketAddr,
        mut target: impl FnMut() -> Option<SocketAddr> + Send + 'static,
        watch: impl FnOnce() -> W + Clone + Send + 'static,
    ) -> Result<Self>
    where
        W: Fn(Sender, &[u8]) -> Verdict + Send + Sync + 'static,
    {
        let serve = move |client| {
            let (target, watch) = (target(), watch.clone());
            async move {
                if let Some(target) = target {
                    // An error means that a side has reset the connection.
                    carry(client, target, watch).await.ok();
                }
            }
        };
        Ok(Self { address, _server: Server::start(address, serve).await? })
    }

    /// Does the same as [`start_at`](Self::start_at), at a free port on loopback.
    pub async fn start<W>(
        target: impl FnMut() -> Option<SocketAddr> + Send + 'static,
        watch: impl FnOnce() -> W + Clone + Send + 'static,
    ) -> Result<Self>
    where
        W: Fn(Sender, &[u8]) -> Verdict + Send + Sync + 'static,
    {
        Self::start_at(port::loopback(port::free()?), target, watch).await
    }
}

/// Relays a connection until both sides have closed it, or one side fails.
async fn carry<W>(mut client: TcpStream, target: SocketAddr, watch: impl FnOnce() -> W) -> io::Result<()>
where
    W: Fn(Sender, &[u8]) -> Verdict,
{
    let mut server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    let watch = watch();
    let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
    tokio::try_join!(
        copy(from_client, to_server, |bytes| watch(Sender::Client, bytes)),
        copy(from_server, to_client, |bytes| watch(Sender::Server, bytes)),
    )?;
    Ok(())
}

/// Copies the bytes of one direction until their sender has closed it.
async fn copy(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, verdict: impl Fn(&[u8]) -> Verdict) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(1 << 16);
    while from.read_buf(&mut bytes).await? > 0 {
        if let Verdict::Cut(length) = verdict(&bytes) {
            to.write_all(bytes.get(..length).unwrap_or(&bytes)).await?;
            // A close without linger resets the connection.
            to.as_ref().set_zero_linger()?;
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        to.write_all(&bytes).await?;
        bytes.clear();
    }
    to.shutdown().await
}

#[cfg(test)]
mod tests {
    use bulk_reshuffle_stack::wait;
    use tokio::net::TcpListener;

    use super::*;

    /// Sends a request and its end through a relay. Returns the bytes that the server received and the answer.
    async fn exchange(relay: SocketAddr, server: TcpListener) -> (Vec<u8>, io::Result<Vec<u8>>) {
        let ask = async {
            let (mut client, mut answer) = (TcpStream::connect(relay).await?, Vec::new());
            client.write_all(b"request").await?;
            client.shutdown().await?;
            client.read_to_end(&mut answer).await.map(|_| answer)
        };
        let answer = async {
            let ((mut client, _), mut request) = (server.accept().await.unwrap(), Vec::new());
            client.read_to_end(&mut request).await.unwrap();
            client.write_all(b"answer").await.unwrap();
            request
        };
        let (answer, request) = tokio::join!(ask, answer);
        (request, answer)
    }

    async fn server() -> (TcpListener, SocketAddr) {
        let server = TcpListener::bind(port::loopback(0)).await.unwrap();
        let address = server.local_addr().unwrap();
        (server, address)
    }

    #[tokio::test]
    async fn a_wiretap_passes_bytes_and_ends_and_records_what_the_client_sends() {
        let (server, address) = server().await;
        let wiretap = Wiretap::start(address).await.unwrap();
        let (request, answer) = exchange(wiretap.address, server).await;
        assert_eq!((request.as_slice(), answer.unwrap().as_slice()), (&b"request"[..], &b"answer"[..]));
        assert_eq!(wiretap.heard(), [b"request"]);
    }

    #[tokio::test]
    async fn a_cut_resets_the_connection_to_the_receiver() {
        let (server, address) = server().await;
        let watch = || |sender, _: &[u8]| if sender == Sender::Server { Verdict::Cut(3) } else { Verdict::Pass };
        let relay = Relay::start(move || Some(address), watch).await.unwrap();
        let (request, answer) = exchange(relay.address, server).await;
        assert_eq!(request, b"request");
        assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn a_dropped_relay_closes_its_port_and_connections() {
        let (server, address) = server().await;
        let relay = Relay::start(move || Some(address), || |_, _: &[u8]| Verdict::Pass).await.unwrap();
        let (mut client, relayed) = (TcpStream::connect(relay.address).await.unwrap(), relay.address);
        let (mut connection, _) = server.accept().await.unwrap();
        drop(relay);
        assert_eq!(connection.read(&mut [0]).await.unwrap_or(0), 0);
        assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
        let limit = std::time::Duration::from_secs(5);
        let is_closed = async || Ok(TcpStream::connect(relayed).await.is_err().then_some(()));
        wait::until(limit, "the port is closed", is_closed).await.unwrap();
    }
}
