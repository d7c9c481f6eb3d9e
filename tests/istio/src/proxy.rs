use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::{Client, Process, of_all_filters};
use serde_json::Value;

use crate::process::wait_connection;

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
#[derive(Debug)]
pub struct Proxy {
    /// Envoy or its launcher.
    pub process: Process,
    /// The address for clients.
    pub listener: SocketAddr,
    /// Envoy's administration interface.
    pub admin: SocketAddr,
    /// The address that Prometheus scrapes.
    scraped: SocketAddr,
    /// Texts in the log when the filter's VM fails.
    faults: &'static [&'static str],
    client: Client,
}

impl Proxy {
    /// Returns a proxy once it accepts connections from clients.
    pub(crate) async fn listening(
        process: Process,
        [listener, admin, scraped]: [SocketAddr; 3],
        faults: &'static [&'static str],
    ) -> Result<Self> {
        wait_connection(&process, "the proxy listens", listener).await?;
        Ok(Self { process, listener, admin, scraped, faults, client: Client::new() })
    }

    /// Returns an error if a VM of the filter has died.
    pub async fn check_filter(&self) -> Result<()> {
        for (name, count) in self.stats("vm_reload").await? {
            ensure!(count == 0, "{name} is {count}: {}", self.process.log_extract());
        }
        let log = self.process.log();
        let fault = log.lines().find(|line| self.faults.iter().any(|fault| line.contains(fault)));
        ensure!(fault.is_none(), "Envoy logged: {fault:?}");
        Ok(())
    }

    /// Returns the URL of a path (`/…`) at the listener.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listener)
    }

    /// Returns the metrics that Prometheus scrapes.
    pub async fn metrics(&self) -> Result<String> {
        Ok(self.client.get(&format!("http://{}/stats/prometheus", self.scraped)).await?.ok()?.text())
    }

    /// Returns the answer of Envoy's administration interface to a path (`/…`).
    pub async fn admin_text(&self, path: &str) -> Result<String> {
        Ok(self.client.get(&format!("http://{}{path}", self.admin)).await?.ok()?.text())
    }

    /// Returns the counters and gauges whose names contain a match of a regular expression.
    pub async fn stats(&self, regex: &str) -> Result<BTreeMap<String, u64>> {
        let answer: Value =
            serde_json::from_str(&self.admin_text(&format!("/stats?format=json&filter={regex}")).await?)?;
        let stats = answer["stats"].as_array().context("Envoy gave no statistics")?;
        let number = |stat: &Value| Some((stat.get("name")?.as_str()?.to_owned(), stat.get("value")?.as_u64()?));
        Ok(of_all_filters(stats.iter().filter_map(number)))
    }
}
