//! Tests `examples/envoy-gateway` with traffic: the real API server and Envoy Gateway translate it into the
//! configuration of a real Envoy in front of a real three-node cluster.

mod example;
mod mesh;

use std::process::Command;

use anyhow::{Result, ensure};
use bulk_reshuffle_istio::{EnvoyGateway, Kubernetes, Network, Traffic};
use bulk_reshuffle_stack::{enter_private_network, is_network_private};

use mesh::Mesh;

/// Nodes, and Kubernetes with Envoy Gateway.
type Site = bulk_reshuffle_istio::Site<Kubernetes<EnvoyGateway>>;

const INDEX: &str = "books";

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
        site.nodes.make_index(DENIED).await?;
        mesh.wait_splitting(DENIED).await?;
        example::deny(&site, DENIED).await?;
        println!("{}", mesh.check_denied(DENIED).await?);
        mesh.end().await?;
        site.servers.stop(EnvoyGateway::stop).await
    })
}
