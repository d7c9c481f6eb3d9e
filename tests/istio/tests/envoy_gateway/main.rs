//! Tests `examples/envoy-gateway` with traffic: the real API server and Envoy Gateway translate it into the
//! configuration of a real Envoy in front of a real three-node cluster.

mod mesh;
mod site;

use anyhow::{Result, ensure};
use bulk_reshuffle_istio::Traffic;
use bulk_reshuffle_stack::{enter_private_network, is_network_private};

use mesh::Mesh;
use site::Site;

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
        let site = Site::start().await?;
        site.nodes.make_index(INDEX).await?;
        site.apply_example().await?;
        let mesh = Mesh::start(&site).await?;
        site.wait_programmed().await?;
        mesh.wait_splitting(INDEX).await?;
        println!("{}", mesh.check_split(INDEX).await?);
        site.nodes.make_index(DENIED).await?;
        mesh.wait_splitting(DENIED).await?;
        site.deny(DENIED).await?;
        println!("{}", mesh.check_denied(DENIED).await?);
        mesh.end().await?;
        site.stop().await
    })
}
