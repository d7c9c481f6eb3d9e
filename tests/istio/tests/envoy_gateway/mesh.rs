use anyhow::{Result, ensure};
use bulk_reshuffle_istio::{GatewayProxy, Nodes, Proxy, Traffic};

use crate::site::{GATEWAY_PORT, Site};

/// The example's gateway.
pub struct Mesh<'a> {
    pub site: &'a Site,
    pub proxy: GatewayProxy,
}

impl Traffic for Mesh<'_> {
    type Proxy = GatewayProxy;

    fn nodes(&self) -> &Nodes {
        &self.site.nodes
    }

    fn proxy(&self) -> &Self::Proxy {
        &self.proxy
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
        self.proxy.check_filter().await?;
        self.proxy.stop().await
    }
}
