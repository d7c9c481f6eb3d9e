//! Tests `examples/envoy-gateway` with traffic: the real API server and Envoy Gateway translate it into the
//! configuration of a real Envoy in front of a real three-node cluster.

mod example;

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::{Item, lines};
use bulk_reshuffle_istio::{EnvoyGateway, Kubernetes, Network, Nodes, Proxy, Traffic};
use bulk_reshuffle_stack::{Client, enter_private_network, is_network_private};

use example::GATEWAY_PORT;

/// Nodes, and Kubernetes with Envoy Gateway.
type Site = bulk_reshuffle_istio::Site<Kubernetes<EnvoyGateway>>;

const INDEX: &str = "books";

/// The header that names the node of a batch.
const HEADER: &str = "x-bulk-reshuffle-node";

/// The first of the clients' addresses.
const CLIENTS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 128);

/// The counter of requests that pass through because the filter is switched off.
const SWITCHED_OFF: &str = "requests_total.outcome.passed_through.reason.switched_off";

/// An index whose bulk path a policy denies.
const DENIED: &str = "secret";

#[test]
fn the_example_splits_requests() -> Result<()> {
    enter_private_network()?;
    ensure!(
        is_network_private(),
        "Envoy Gateway binds fixed ports on all addresses and needs a private network: allow `unshare --net`"
    );
    tokio::runtime::Runtime::new()?.block_on(async {
        // The API server rejects endpoints on loopback.
        let added = Command::new("ip").args(["address", "add", "10.77.0.0/24", "dev", "lo"]).output()?;
        ensure!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        let site = Site::start(Network::at([10, 77, 0])?, example::control_plane).await?;
        site.nodes.make_index(INDEX).await?;
        example::apply(&site).await?;
        let mesh = Mesh::start(&site).await?;
        example::wait_programmed(&site).await?;
        mesh.wait_splitting(INDEX).await?;
        println!("{}", mesh.check_split(INDEX).await?);
        mesh.check_named().await?;
        site.nodes.make_index(DENIED).await?;
        mesh.wait_splitting(DENIED).await?;
        example::deny(&site, DENIED).await?;
        println!("{}", mesh.check_denied(DENIED).await?);
        println!("{}", mesh.check_switched_off(INDEX).await?);
        mesh.end().await
    })
}

/// The example's gateway, which Envoy Gateway configures with the applied manifests.
struct Mesh<'a> {
    site: &'a Site,
    proxy: Proxy,
}

impl Traffic for Mesh<'_> {
    fn nodes(&self) -> &Nodes {
        &self.site.nodes
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Each client has an address of its own, which must not keep its requests apart.
    fn client(&self, number: usize) -> Client {
        Client::at(Ipv4Addr::from(u32::from(CLIENTS).saturating_add(number as u32)).into())
    }
}

impl<'a> Mesh<'a> {
    /// Starts the gateway and returns when it listens.
    async fn start(site: &'a Site) -> Result<Self> {
        let Kubernetes { api, controller, .. } = &site.servers;
        let proxy = controller.start_proxy(&site.tools, api, "elasticsearch", GATEWAY_PORT).await?;
        Ok(Self { site, proxy })
    }

    /// Checks that each batch went to the node that it named, and that clients do not see the header.
    async fn check_named(&self) -> Result<()> {
        let redirected = self.counted("batches_redirected_total").await?;
        ensure!(redirected == 0, "{redirected} batches went to other nodes");
        let answer = self.nodes().client.get(&self.url("/")).await?;
        ensure!(answer.status == 200 && answer.headers.get(HEADER).is_none(), "{:?}", answer.headers);
        Ok(())
    }

    /// Switches the filter off. New connections must use it no longer.
    async fn check_switched_off(&self, index: &str) -> Result<String> {
        let begun = Instant::now();
        example::switch_off(self.site).await?;
        self.wait_until("new connections pass without being split", async || {
            self.check_sent_once(index).await?;
            Ok((self.counted(SWITCHED_OFF).await? > 0).then_some(()))
        })
        .await?;
        Ok(format!("switched off: requests of new connections pass {:.1?} after `kubectl apply`", begun.elapsed()))
    }

    /// Sends a request on a connection of its own, with a document for each node.
    async fn check_sent_once(&self, index: &str) -> Result<()> {
        let body: String = (0..12).map(|id| lines::index(index, &format!("off-{id}"), 1)).collect();
        let answer = Client::new().post_ndjson(&self.url("/_bulk"), body).await?;
        let items = Item::read_all(&answer)?;
        ensure!(items.len() == 12 && items.iter().all(|item| item.status < 300), "{}", answer.text());
        Ok(())
    }

    /// Stops the gateway. Its configuration must have the patches: without them, each split request costs an upstream
    /// request, and batches that went to other nodes are not counted.
    async fn end(self) -> Result<()> {
        let configuration = self.proxy.admin_text("/config_dump").await?;
        for patch in [
            "\"allow_on_headers_stop_iteration\": true",
            "\"failure_policy\": \"FAIL_RELOAD\"",
            "TCP_USER_TIMEOUT",
            "envoy.filters.http.upstream_codec",
        ] {
            ensure!(configuration.contains(patch), "the configuration lacks {patch}:\n{configuration}");
        }
        self.proxy.check_filter().await
    }
}
