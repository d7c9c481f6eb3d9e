use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The interface that loses all packets: nothing at its other end has the address that they are sent to.
const INTERFACE: &str = "hole0";
const OTHER_END: &str = "hole1";
const NOBODY: &str = "02:00:00:00:00:01";

/// A loopback address to which all packets are lost, as if its machine had no power.
#[derive(Debug)]
pub struct BlackHole {
    address: Ipv4Addr,
}

impl BlackHole {
    /// Makes black holes possible in this private network.
    pub fn prepare() -> Result<()> {
        ip(&format!("link add {INTERFACE} type veth peer name {OTHER_END}"))?;
        ip(&format!("link set {INTERFACE} up"))?;
        ip(&format!("link set {OTHER_END} up"))?;
        let permission = format!("/proc/sys/net/ipv4/conf/{INTERFACE}/route_localnet");
        std::fs::write(&permission, "1").with_context(|| format!("cannot write {permission}"))
    }

    /// Loses all packets to an address from now on.
    pub fn open(address: Ipv4Addr) -> Result<Self> {
        ip(&format!("neigh replace {address} lladdr {NOBODY} dev {INTERFACE} nud permanent"))?;
        ip(&format!("route replace {address}/32 dev {INTERFACE} table local"))?;
        Ok(Self { address })
    }

    /// Lets packets reach the address again.
    pub fn close(self) -> Result<()> {
        ip(&format!("route del {}/32 dev {INTERFACE} table local", self.address))
    }
}

fn ip(arguments: &str) -> Result<()> {
    let output = Command::new("ip").args(arguments.split(' ')).output().context("cannot run ip")?;
    ensure!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
