//! Real nodes with OpenSearch's security plug-in: TLS among them and with clients, users and roles.

mod administrator;
mod files;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_stack::{Cluster, ClusterOptions, Security, Tools, wait};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

pub use administrator::Administrator;

use crate::{Authority, Identity, Nodes, TlsClient};

/// A limit far above the duration of a start, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// A cluster of three nodes whose users and roles an [`Administrator`] creates. It has none at first.
///
/// Each node has its own certificate, for `es-0.internal`, `es-1.internal` or `es-2.internal`.
#[derive(Debug)]
pub struct SecuredCluster {
    cluster: Cluster,
    pub authority: Authority,
    /// The certificate of the administrator.
    identity: Identity,
    change: Arc<Mutex<()>>,
}

impl SecuredCluster {
    /// Starts the nodes, and returns when each of them knows the users, of which there are none.
    pub async fn start(folder: PathBuf) -> Result<Self> {
        let authority = Authority::new()?;
        let identity = authority.sign(files::ADMINISTRATOR)?;
        let nodes: Vec<usize> = (0..3).collect();
        let files = nodes.iter().map(|node| files::of_node(*node, &authority)).collect::<Result<_>>()?;
        let options = ClusterOptions {
            nodes: nodes.len(),
            security: Some(Security { files }),
            settings: files::settings(),
            ..ClusterOptions::new(folder)
        };
        let cluster = Cluster::launch(&Tools::find()?, options)?;
        let secured = Self { cluster, authority, identity, change: Arc::default() };
        secured.wait_ready().await?;
        Ok(secured)
    }

    pub fn nodes(&self) -> Nodes {
        self.cluster.addresses().map(|(name, address)| (name.to_owned(), address)).collect()
    }

    /// Returns a client with the administrator's certificate. It belongs to the runtime that first uses it.
    pub fn administrator(&self) -> Result<Administrator> {
        let client = TlsClient::http1(&self.authority, Some(&self.identity))?;
        Ok(Administrator::new(client, self.nodes(), Arc::clone(&self.change)))
    }

    /// Returns a client without a certificate.
    pub fn client(&self) -> Result<TlsClient> {
        TlsClient::http1(&self.authority, None)
    }

    async fn wait_ready(&self) -> Result<()> {
        let administrator = self.administrator()?;
        for node in 0..self.cluster.len() {
            wait::until(LIMIT, "the nodes have found each other and the users", async || {
                self.cluster.ensure_running()?;
                let health = format!("/_cluster/health?wait_for_nodes={}&timeout=1s", self.cluster.len());
                let is_joined = administrator.get_from(node, &health).await.is_ok_and(|it| it["timed_out"] == false);
                let users = administrator.get_from(node, "/_plugins/_security/api/internalusers").await;
                Ok((is_joined && users.is_ok_and(|users| users == Value::Object(Map::new()))).then_some(()))
            })
            .await?;
        }
        Ok(())
    }
}
