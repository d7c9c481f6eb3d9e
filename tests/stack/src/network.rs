//! Blocks of loopback addresses, for servers that share a port.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, Result, bail};

/// The address and port in each block whose listener owns the block.
const OWNER: (u8, u16) = (254, 15_999);

/// A block of local addresses that no other test uses.
#[derive(Debug)]
pub struct Network {
    block: [u8; 3],
    next: AtomicU8,
    _owner: TcpListener,
}

impl Network {
    /// Finds a free block of loopback addresses and reserves it.
    pub fn find() -> Result<Self> {
        // Concurrent test programs start at different blocks.
        let offset = std::process::id().wrapping_mul(97);
        for step in 0..u32::from(u16::MAX) / 2 {
            let [_, _, first, second] = offset.wrapping_add(step).to_be_bytes();
            // Use the upper half: loopback addresses that people choose by hand are usually low.
            let block = [127, first | 0x80, second];
            if let Ok(network) = Self::at(block) {
                return Ok(network);
            }
        }
        bail!("found no free loopback addresses")
    }

    /// Reserves a block of this machine's addresses.
    pub fn at(block: [u8; 3]) -> Result<Self> {
        let owner = TcpListener::bind((host(block, OWNER.0), OWNER.1))?;
        Ok(Self { block, next: AtomicU8::new(1), _owner: owner })
    }

    /// Returns an address of the block that was not returned before.
    pub fn address(&self) -> Result<Ipv4Addr> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < OWNER.0).then(|| host(self.block, number)).context("the block has no more addresses")
    }

    /// Returns addresses of the block that were not returned before, each with this port.
    pub fn servers(&self, count: usize, port: u16) -> Result<Vec<SocketAddr>> {
        (0..count).map(|_| Ok((self.address()?, port).into())).collect()
    }
}

fn host([a, b, c]: [u8; 3], number: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, number)
}
