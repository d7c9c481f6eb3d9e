use std::net::SocketAddr;

use anyhow::{Result, bail, ensure};
use bulk_reshuffle_istio::{GatewayProxy, Nodes, Traffic};
use bulk_reshuffle_stack::Process;

use crate::site::{GATEWAY_PORT, Site};

/// The example's gateway.
pub struct Mesh<'a> {
    pub site: &'a Site,
    pub proxy: GatewayProxy,
}

impl Traffic for Mesh<'_> {
    fn nodes(&self) -> &Nodes {
        &self.site.nodes
    }

    fn listener(&self) -> SocketAddr {
        self.proxy.listener()
    }

    fn admin(&self) -> SocketAddr {
        self.proxy.admin()
    }

    fn process(&self) -> &Process {
        self.proxy.process()
    }

    fn upstream(node: &str) -> String {
        node.to_owned()
    }
}

impl<'a> Mesh<'a> {
    /// Starts the gateway and returns when it listens.
    pub async fn start(site: &'a Site) -> Result<Self> {
        let (api, hosts) = (&site.api, site.names());
        let proxy = site.gateway.start_proxy(&site.tools, api, "elasticsearch", GATEWAY_PORT, &hosts).await?;
        Ok(Self { site, proxy })
    }

    /// Stops the gateway. Its configuration must have the patch: without it, each split request costs an upstream
    /// request.
    pub async fn end(self) -> Result<()> {
        let configuration = self.proxy.configuration().await?;
        ensure!(
            configuration.contains("\"allow_on_headers_stop_iteration\": true"),
            "the configuration is not patched:\n{configuration}"
        );
        let log = self.proxy.process().log();
        if let Some(line) = log.lines().find(|line| line.contains("][critical]") || line.contains("panicked")) {
            bail!("Envoy logged: {line}");
        }
        self.proxy.stop().await
    }
}
