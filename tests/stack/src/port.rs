//! Ports on loopback.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Result, anyhow, bail};
use tokio::net::TcpSocket;

/// The first port of a range below Linux's ephemeral ports (32768 and up by default). An outgoing connection could take
/// an ephemeral port before a server binds it; the ports of this range stay free.
const FIRST: u16 = 15_000;
const COUNT: u16 = 16_000;

/// Returns the address of a port on loopback.
pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Returns a free port that this function has not returned to this process before.
pub fn free() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Concurrent test programs start at different ports.
    let offset = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + u16::try_from(offset.wrapping_add(step) % u32::from(COUNT))?;
        if bind(loopback(port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {}", FIRST + COUNT)
}

/// Returns several free ports.
pub fn free_ports(count: usize) -> Result<Vec<u16>> {
    (0..count).map(|_| free()).collect()
}

/// Returns an error that names the port if it is in use.
///
/// Envoy does not detect this: it binds with `SO_REUSEPORT`, so two Envoys would share the port's connections.
pub fn ensure_free(port: u16) -> Result<()> {
    ensure_free_at(loopback(port))
}

/// Returns an error that names the port if it is in use at an address of the machine.
pub fn ensure_free_at(address: SocketAddr) -> Result<()> {
    let (host, port) = (address.ip(), address.port());
    match bind(address) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            Err(anyhow!("port {port} on {host} is in use by another process"))
        }
        Err(error) => Err(anyhow!("port {port} on {host} cannot be used: {error}")),
    }
}

/// Binds an address without listening.
///
/// A process that is started meanwhile has a copy of the socket until it runs its own program. Such a copy would keep
/// the port in use if it listened; as it does not, others with `SO_REUSEADDR` can bind, as all servers here do.
fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_port_with_a_listener_is_in_use() -> Result<()> {
        let address = loopback(free()?);
        let copy_in_a_new_process = bind(address)?;
        ensure_free_at(address)?;
        let _listener = copy_in_a_new_process.listen(1)?;
        assert!(ensure_free_at(address).unwrap_err().to_string().contains("in use"));
        Ok(())
    }
}
