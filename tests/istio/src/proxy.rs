use std::net::SocketAddr;

use anyhow::{Result, bail};
use bulk_reshuffle_stack::Process;

use crate::readiness::wait_connection;

/// The role of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A standalone proxy in front of services.
    Gateway,
    /// A proxy beside an application.
    Sidecar,
}

impl Kind {
    /// Returns Istio's name of the role.
    pub(crate) fn role(self) -> &'static str {
        match self {
            Self::Gateway => "router",
            Self::Sidecar => "sidecar",
        }
    }
}

/// A running Envoy with a listener for clients. Dropping it kills the process.
#[expect(async_fn_in_trait, reason = "callers await it on the same thread")]
pub trait Proxy: Sized {
    /// Returns the process of Envoy or of its launcher.
    fn process(&self) -> &Process;

    /// Returns the address of the listener for clients.
    fn listener(&self) -> SocketAddr;

    /// Returns the address of Envoy's administration interface.
    fn admin(&self) -> SocketAddr;

    /// Returns an error if a VM of the filter has died.
    async fn check_filter(&self) -> Result<()>;

    /// Stops Envoy and its launcher.
    async fn stop(self) -> Result<()>;

    /// Returns the URL of a path (`/…`) at the listener.
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listener())
    }

    /// Waits until Envoy accepts connections from clients.
    async fn wait_listening(&self) -> Result<()> {
        wait_connection(self.process(), "the proxy listens", self.listener()).await
    }

    /// Returns an error if the log has one of these texts.
    fn check_log(&self, faults: &[&str]) -> Result<()> {
        match self.process().log().lines().find(|line| faults.iter().any(|fault| line.contains(fault))) {
            Some(line) => bail!("Envoy logged: {line}"),
            None => Ok(()),
        }
    }
}
