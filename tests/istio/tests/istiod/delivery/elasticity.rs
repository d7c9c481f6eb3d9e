//! A cluster whose nodes come, go and move while clients write. Only Kubernetes' pods change, not the manifests.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::Wiretap;
use bulk_reshuffle_e2e::load::{Load, Writer};
use bulk_reshuffle_istio::{Nodes, Overlay, Proxy, StatefulSet, Traffic};

use super::pods::{wait_direct, wait_pods};
use super::{Mesh, Site};

/// The index that clients write to.
const INDEX: &str = "elastic";

/// How many clients write, and how often each of them sends a request.
const WRITERS: u64 = 8;
const PERIOD: Duration = Duration::from_millis(200);

/// Statuses of operations whose outcome is unknown because their node has ended.
const INTERRUPTED: &[u16] = &[500, 503, 409];

/// A mesh with a cluster of its own. Each pod's address forwards to its node.
struct Elastic<'a> {
    mesh: Mesh<'a>,
    overlay: Overlay,
    nodes: Nodes,
    /// The pods of all nodes, also of those that have ended.
    set: StatefulSet,
    relays: Vec<Wiretap>,
    load: Load,
    proven: Vec<String>,
}

impl Traffic for Elastic<'_> {
    fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    fn proxy(&self) -> &Proxy {
        &self.mesh.proxy
    }
}

/// Moves a pod, and lets the cluster grow, replace a node, and shrink, all while clients write. Verifies every answer.
pub async fn changes(site: &Site, overlay: &Overlay) -> Result<String> {
    let mut elastic = Elastic::start(site, overlay).await?;
    elastic.step("a pod moved", INTERRUPTED, async |it| it.relocate(1).await).await?;
    elastic.step("from 3 to 5 nodes", &[], async |it| it.add(2).await).await?;
    elastic
        .step("a node replaced", &[], async |it| {
            it.add(1).await?;
            it.remove(&[1]).await
        })
        .await?;
    elastic.step("from 5 to 2 nodes", &[], async |it| it.remove(&[2, 3, 4]).await).await?;
    elastic.end().await
}

impl<'a> Elastic<'a> {
    async fn start(site: &'a Site, overlay: &Overlay) -> Result<Self> {
        let hosts = (0..3).map(|_| site.network.address()).collect::<Result<Vec<_>>>()?;
        let set = StatefulSet::of_example(&site.tools, &hosts)?;
        let nodes = Nodes::start(&site.tools, site.folder("elastic-nodes"), hosts).await?;
        nodes.make_index_with(INDEX, 1).await?;
        let overlay = overlay.clone().of_set(&set);
        let mesh = Mesh::start(site, INDEX, &overlay).await?;
        let url = mesh.url(&format!("/{INDEX}/_bulk"));
        let writer = |number| Writer::new(number, url.clone(), 1..=50, 200).asking_for(Mesh::SERVICE).every(PERIOD);
        let load = Load::start(INDEX, (1..=WRITERS).map(writer));
        Ok(Self { mesh, overlay, nodes, set, relays: Vec::new(), load, proven: Vec::new() })
    }

    /// Makes a change, in which operations may fail only with these statuses. Then each node must get exactly its own
    /// operations again.
    async fn step(
        &mut self,
        what: &str,
        statuses: &[u16],
        change: impl AsyncFnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let (sent, failed) = (self.load.tally.requests.get(), self.load.tally.failed());
        self.write().await?;
        change(self).await?;
        self.write().await?;
        match statuses {
            [] => {
                ensure!(self.load.tally.failed() == failed, "{what}: {:?} failed, {failed:?} before", self.load.tally)
            }
            statuses => self.load.tally.expect_only(statuses)?,
        }
        let sent = self.load.tally.requests.get() - sent;
        let _paused = self.load.pause().await;
        self.nodes.cluster.rebalance(false).await?;
        let index = &format!("{INDEX}-{}", self.proven.len());
        self.nodes.make_index(index).await?;
        self.wait_splitting(index).await?;
        wait_direct(self, index).await?;
        self.check_split(index).await?;
        self.nodes.cluster.rebalance(true).await?;
        self.proven.push(format!("{what} during {sent} requests"));
        Ok(())
    }

    /// Waits until each writer has sent a few requests.
    async fn write(&mut self) -> Result<()> {
        self.load.sends(3 * WRITERS).await
    }

    async fn end(self) -> Result<String> {
        let (ledger, _) = self.load.end().await?;
        let verified = ledger.verify(&self.nodes.documents(INDEX).await?)?;
        self.mesh.end().await?;
        Ok(format!("{}; {verified} documents verified", self.proven.join("; ")))
    }

    /// Adds this many nodes, whose pods are then ready.
    async fn add(&mut self, count: usize) -> Result<()> {
        let first = self.set.pods.len();
        for _ in 0..count {
            self.set.pods.push(self.set.next(self.mesh.site.network.address()?));
        }
        let published: Vec<SocketAddr> =
            self.set.pods[first..].iter().map(|pod| (pod.address, Nodes::PORT).into()).collect();
        for (node, address) in self.nodes.cluster.add(&published).await?.zip(published) {
            self.forward(address, node).await?;
        }
        self.announce().await
    }

    /// Stops a node, and starts it again in a pod with another address.
    async fn relocate(&mut self, node: usize) -> Result<()> {
        self.stop(node).await?;
        let pod = &mut self.set.pods[node];
        (pod.address, pod.is_ready) = (self.mesh.site.network.address()?, true);
        let published = (pod.address, Nodes::PORT).into();
        self.nodes.cluster.move_to(node, published).await?;
        self.forward(published, node).await?;
        self.announce().await
    }

    /// Moves all shards off these nodes, and stops them.
    async fn remove(&mut self, nodes: &[usize]) -> Result<()> {
        self.nodes.cluster.drain(nodes).await?;
        for node in nodes {
            self.stop(*node).await?;
        }
        self.nodes.cluster.forget_drained().await
    }

    /// Stops a node after its pod is no longer ready, and clients have had answers since.
    async fn stop(&mut self, node: usize) -> Result<()> {
        self.set.pods[node].is_ready = false;
        self.announce().await?;
        self.write().await?;
        self.nodes.cluster.shut_down(node).await
    }

    async fn forward(&mut self, published: SocketAddr, node: usize) -> Result<()> {
        self.relays.push(Wiretap::start_at(published, self.nodes.cluster.http_addr(node)?).await?);
        Ok(())
    }

    /// Applies the pods, and waits until the proxy has exactly those that are ready.
    async fn announce(&self) -> Result<()> {
        self.mesh.apply(&self.overlay.clone().of_set(&self.set)).await?;
        wait_pods(&self.mesh, &self.set.pods).await
    }
}
