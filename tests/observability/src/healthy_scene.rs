use std::net::SocketAddr;

use anyhow::Result;
use bulk_reshuffle_e2e::RealScene;
use bulk_reshuffle_e2e::load::{self, Clients};
use bulk_reshuffle_stack::{Client, FilterConfig, Tools};

/// The number of clients, enough for batches of several requests.
const CLIENTS: usize = 12;

/// A real cluster behind Envoy with the shipped configuration, under load.
#[derive(Debug)]
pub struct HealthyScene {
    clients: Clients<()>,
    scene: RealScene,
}

impl HealthyScene {
    /// Starts the cluster, Envoy and the load, and returns when the filter splits requests.
    pub async fn start(tools: &Tools) -> Result<Self> {
        let scene = RealScene::start(tools, FilterConfig::Shipped, &["books"]).await?;
        let mut clients = Clients::default();
        for client in 0..CLIENTS {
            let http = Client::new();
            let [split, whole] = ["/books/_bulk", "/books/_bulk?pipeline=_none"].map(|path| scene.envoy.url(path));
            clients.add((), move |(), number| {
                let (http, url) = (http.clone(), if number % 5 == 4 { whole.clone() } else { split.clone() });
                let first = client * 1_000_000 + number * 7;
                async move { load::write(&http, &url, first..first + 1 + client % 7).await }
            });
        }
        Ok(Self { clients, scene })
    }

    /// Returns the address of Envoy's administration interface.
    pub fn admin(&self) -> SocketAddr {
        self.scene.envoy.admin()
    }

    /// Stops everything.
    pub async fn stop(self) -> Result<()> {
        self.clients.end().await?;
        self.scene.stop().await
    }
}
