//! `examples/envoy-gateway` as a cluster gets it: the real API server and Envoy Gateway make the configuration of it that
//! the real Envoy takes, in front of a real three-node cluster, with traffic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod mesh;
#[allow(dead_code)]
#[path = "../full/module.rs"]
mod module;
#[path = "../full/network.rs"]
mod network;
mod site;
#[allow(dead_code)]
#[path = "../delivery/traffic.rs"]
mod traffic;

use anyhow::{Result, ensure};

use mesh::Mesh;
use site as nodes;
use site::Site;

const INDEX: &str = "books";

#[test]
fn the_example_splits_requests() -> Result<()> {
    network::enter()?;
    ensure!(network::is_private(), "Envoy Gateway takes fixed ports of all addresses: allow `unshare --net`");
    tokio::runtime::Runtime::new()?.block_on(async {
        let site = Site::start().await?;
        site.make_index(INDEX).await?;
        site.apply_example().await?;
        let mesh = Mesh::start(&site).await?;
        site.wait_programmed().await?;
        mesh.wait_splitting(INDEX).await?;
        println!("{}", mesh.check_split(INDEX).await?);
        mesh.end().await?;
        site.stop().await
    })
}
