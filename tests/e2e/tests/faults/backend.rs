use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bulk_reshuffle_e2e::load::{self, Ledger, Load, Tally};
use bulk_reshuffle_e2e::{LentCluster, Nodes, SharedClusters};
use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, Distribution, Profile, Tools, wait};
use serde_json::{Value, json};

use crate::LIMIT;
use crate::turn::Turn;

static CLUSTERS: SharedClusters = SharedClusters::new(env!("CARGO_TARGET_TMPDIR"), "faults");

/// The real cluster behind a test's Envoys, and the test's indices in it.
pub struct Backend {
    pub nodes: Nodes,
    pub client: Client,
    cluster: Owner,
    indices: RefCell<BTreeSet<String>>,
    turn: Option<Turn>,
}

/// The owner of a cluster.
enum Owner {
    /// All tests: others use it at the same time.
    All,
    /// This test, until it gives the cluster back.
    Borrower(Box<LentCluster>),
    /// This test alone.
    Test(Box<Cluster>),
}

impl Backend {
    /// Returns the cluster that tests use at the same time. They must not change its settings or nodes, and their indices
    /// must have different names.
    pub async fn shared() -> Result<Self> {
        let turn = Turn::wait().await?;
        Ok(Self { turn: Some(turn), ..Self::shared_too().await? })
    }

    /// Returns the same cluster for a test that has its turn already.
    pub async fn shared_too() -> Result<Self> {
        let nodes = CLUSTERS.nodes("shared", Distribution::default(), Profile::Large).await?;
        Ok(Self::of(nodes, Owner::All, None))
    }

    /// Returns the cluster that one test at a time uses.
    pub async fn lent() -> Result<Self> {
        let cluster = CLUSTERS.lend("lent", Distribution::default(), Profile::Large, &json!({})).await?;
        Ok(Self::of(cluster.nodes(), Owner::Borrower(Box::new(cluster)), Some(Turn::begin())))
    }

    /// Starts a cluster for a test that adds and removes nodes. The folder has this name.
    pub async fn own(name: &str, change: impl FnOnce(&mut ClusterOptions)) -> Result<Self> {
        let turn = Turn::wait().await?;
        let mut options = ClusterOptions::new(CLUSTERS.folder(name));
        change(&mut options);
        let cluster = Box::new(Cluster::start(&Tools::find()?, options).await?);
        let mut backend = Self::of(Nodes::new(), Owner::Test(cluster), Some(turn));
        backend.find_nodes()?;
        Ok(backend)
    }

    fn of(nodes: Nodes, cluster: Owner, turn: Option<Turn>) -> Self {
        Self { nodes, client: Client::new(), cluster, indices: RefCell::default(), turn }
    }

    /// Returns the cluster for a test that changes it.
    pub fn cluster(&mut self) -> Result<&mut Cluster> {
        match &mut self.cluster {
            Owner::All => bail!("other tests use the cluster"),
            Owner::Borrower(cluster) => Ok(cluster),
            Owner::Test(cluster) => Ok(cluster),
        }
    }

    /// Limits the nodes to those that run.
    pub fn find_nodes(&mut self) -> Result<()> {
        let cluster = self.cluster()?;
        let running: Vec<_> = cluster.running_nodes().collect();
        let named = running.into_iter().map(|(node, address)| Ok((cluster.node_name(node)?.to_owned(), address)));
        self.nodes = named.collect::<Result<_>>()?;
        Ok(())
    }

    /// Returns a URL at a node.
    pub fn direct(&self, node: usize, path: &str) -> Result<String> {
        let (_, address) = self.nodes.get(node).context("no such node")?;
        Ok(format!("http://{address}{path}"))
    }

    pub async fn get(&self, path: &str) -> Result<Value> {
        self.client.get_json(&self.direct(0, path)?).await
    }

    /// Sends JSON to a node by `POST`; any status other than success is an error.
    pub async fn post(&self, path: &str, body: Value) -> Result<Value> {
        self.client.post_json(&self.direct(0, path)?, &body).await?.ok().with_context(|| path.to_owned())?.json()
    }

    /// Sends JSON to a node by `PUT`; any status other than success is an error.
    pub async fn put(&self, path: &str, body: Value) -> Result<Value> {
        self.client.put_json(&self.direct(0, path)?, &body).await?.ok().with_context(|| path.to_owned())?.json()
    }

    /// Sends `DELETE` to a node; any status other than success is an error.
    pub async fn delete(&self, path: &str) -> Result<()> {
        self.client.delete(&self.direct(0, path)?).await?.ok().with_context(|| path.to_owned()).map(|_| ())
    }

    /// Changes transient cluster settings; `null` removes a setting.
    pub async fn set(&self, settings: Value) -> Result<()> {
        ensure!(!matches!(self.cluster, Owner::All), "other tests use the cluster");
        self.put("/_cluster/settings", json!({"transient": settings})).await.map(|_| ())
    }

    /// Creates an index of six shards without replicas; these settings override its own. It is removed at the end.
    pub async fn make_index(&self, name: &str, settings: &Value) -> Result<()> {
        let mut all = json!({"number_of_shards": 6, "number_of_replicas": 0, "refresh_interval": -1});
        all.as_object_mut().context("not an object")?.extend(settings.as_object().context("not an object")?.clone());
        let index = json!({"settings": all, "mappings": {"properties": {
            "n": {"type": "long"}, "text": {"type": "keyword", "index": false, "doc_values": false},
        }}});
        self.put(&format!("/{name}"), index).await?;
        self.indices.borrow_mut().insert(name.to_owned());
        Ok(())
    }

    /// Waits until every node sees all nodes, and all shards are allocated.
    pub async fn wait_green(&self) -> Result<()> {
        let query = format!("wait_for_status=green&wait_for_nodes={}&timeout=1s", self.nodes.len());
        let client = self.client.with_timeout(Duration::from_secs(5));
        for node in 0..self.nodes.len() {
            let url = self.direct(node, &format!("/_cluster/health?{query}"))?;
            wait::until(LIMIT, "the cluster is green", async || Ok(client.get_json(&url).await.ok())).await?;
        }
        Ok(())
    }

    pub async fn documents(&self, index: &str) -> Result<Vec<(String, u64)>> {
        load::documents(&self.client, &self.direct(0, "")?, index).await
    }

    /// Ends the loads, and compares the answers that clients received with the cluster's documents. Prints the loads'
    /// outcomes under this name, and returns them.
    pub async fn verify(&self, name: &str, loads: Vec<Load>) -> Result<Vec<Arc<Tally>>> {
        let (mut ledger, mut tallies) = (Ledger::default(), Vec::new());
        let indices: BTreeSet<String> = loads.iter().map(|load| load.index.clone()).collect();
        for load in loads {
            let (told, tally) = load.end().await?;
            ledger.add(told);
            tallies.push(tally);
        }
        self.wait_green().await?;
        let mut found = Vec::new();
        for index in &indices {
            found.extend(self.documents(index).await?);
        }
        let verified = ledger.verify(&found)?;
        for tally in &tallies {
            ensure!(tally.acknowledged.get() > 0, "nothing was written");
            println!("{name}: {tally}, {verified} documents verified");
        }
        Ok(tallies)
    }

    /// Removes the test's indices, and verifies the health of a cluster that the next test uses.
    pub async fn end(self) -> Result<()> {
        self.wait_green().await?;
        for index in self.indices.take() {
            self.delete(&format!("/{index}?ignore_unavailable=true")).await?;
        }
        match self.cluster {
            Owner::All => {}
            Owner::Borrower(cluster) => cluster.give_back().await?,
            Owner::Test(cluster) => cluster.stop().await?,
        }
        drop(self.turn);
        Ok(())
    }
}
