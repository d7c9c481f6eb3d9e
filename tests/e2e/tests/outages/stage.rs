use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use bulk_reshuffle_stack::{
    Cluster, ClusterOptions, Tools, enter_private_network, folder_of_this_process, is_network_private,
};
use tokio::sync::{Mutex, MutexGuard};

use crate::proxy::{Kind, Proxy};

/// The stage that all tests use in turn. A test that fails leaves none.
static STAGE: Mutex<Option<Stage>> = Mutex::const_new(None);

/// Three nodes with addresses of their own, and an Envoy of each kind in front of them.
pub struct Stage {
    pub cluster: Cluster,
    pub proxies: Vec<Proxy>,
    /// The folder for the files of Envoys.
    pub folder: PathBuf,
}

/// The right to use the stage, until it is dropped.
pub type Turn = MutexGuard<'static, Option<Stage>>;

impl Stage {
    /// Waits until no other test uses the stage. Starts it for the first test, and after a test that has failed.
    pub async fn take() -> Result<(Self, Turn)> {
        enter_private_network()?;
        ensure!(is_network_private(), "packets can be lost only in a private network: allow `unshare --net`");
        let mut turn = STAGE.lock().await;
        let stage = match turn.take() {
            Some(stage) => stage,
            None => Self::start().await?,
        };
        Ok((stage, turn))
    }

    async fn start() -> Result<Self> {
        let folder = folder_of_this_process(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("outages"));
        let mut options = ClusterOptions::new(&folder);
        options.http_hosts = (1..=3).map(|node| Ipv4Addr::new(127, 90, 0, node)).collect();
        let cluster = Cluster::start(&Tools::find()?, options).await?;
        let mut proxies = Vec::new();
        for kind in Kind::ALL {
            proxies.push(Proxy::start(&cluster, &folder, kind).await?);
        }
        Ok(Self { cluster, proxies, folder })
    }
}
