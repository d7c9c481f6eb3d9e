//! Ports on loopback.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Result, anyhow, bail};

/// Below the ports that Linux hands to outgoing connections (32768 and up by default). A port from there could be
/// taken by any connection between our choice and the moment a server binds it; one from here stays free.
const FIRST: u16 = 15_000;
const COUNT: u16 = 16_000;

/// The address of a port on loopback.
pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// A port that nobody listens on and that this process has not been given before.
pub fn free() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test programs that run at the same time begin at different places.
    let offset = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + u16::try_from(offset.wrapping_add(step) % u32::from(COUNT))?;
        if TcpListener::bind(loopback(port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {}", FIRST + COUNT)
}

/// Several free ports.
pub fn free_ports(count: usize) -> Result<Vec<u16>> {
    (0..count).map(|_| free()).collect()
}

/// An error that names the port if somebody listens on it.
///
/// Envoy would not notice: it binds with `SO_REUSEPORT`, and two of them would share the port's connections.
pub fn ensure_free(port: u16) -> Result<()> {
    ensure_free_at(loopback(port))
}

/// The same for any of the machine's addresses.
pub fn ensure_free_at(address: SocketAddr) -> Result<()> {
    let (host, port) = (address.ip(), address.port());
    match TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            Err(anyhow!("port {port} on {host} is taken by another process"))
        }
        Err(error) => Err(anyhow!("port {port} on {host} cannot be used: {error}")),
    }
}
