use anyhow::{Result, ensure};
use bulk_reshuffle_istio::{GatewayProxy, Kubernetes, NAMESPACE, Nodes, Proxy, Traffic};

use super::Site;
use super::example::GATEWAY_PORT;

/// The example's gateway, which Envoy Gateway configures with the applied manifests.
pub struct Mesh<'a> {
    site: &'a Site,
    proxy: GatewayProxy,
}

impl Traffic for Mesh<'_> {
    type Proxy = GatewayProxy;

    fn nodes(&self) -> &Nodes {
        &self.site.nodes
    }

    fn proxy(&self) -> &GatewayProxy {
        &self.proxy
    }

    fn upstream(node: &str) -> String {
        node.to_owned()
    }
}

impl<'a> Mesh<'a> {
    /// Starts the gateway and returns when it listens.
    pub async fn start(site: &'a Site) -> Result<Self> {
        let Kubernetes { api, controller, .. } = &site.servers;
        // The pods' names in DNS, as their headless Service publishes them.
        let hosts = site.set.pods.iter().map(|pod| (format!("{}.es.{NAMESPACE}", pod.name), pod.address));
        let hosts: Vec<_> = hosts.collect();
        let proxy = controller.start_proxy(&site.tools, api, "elasticsearch", GATEWAY_PORT, &hosts).await?;
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
