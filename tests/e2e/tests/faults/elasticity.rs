//! A cluster that grows and shrinks, and whose nodes are replaced, moved and restarted, behind one Envoy cluster with
//! all nodes. Envoy learns them by EDS or STRICT_DNS. Nothing in Envoy's configuration or the filter's changes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bulk_reshuffle_e2e::envoy_config::discover_hosts;
use bulk_reshuffle_e2e::load::Load;
use bulk_reshuffle_e2e::{HostFile, NameServer, check_filter};
use bulk_reshuffle_stack::{Envoy, EnvoyOptions, FilterConfig, Tools, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::LIMIT;
use crate::backend::Backend;
use crate::endpoints::{Endpoints, PORT};
use crate::fault_scene::{counted, query, writers_to};

const REFRESH: Duration = Duration::from_secs(1);

const WORKERS: u32 = 2;

/// The number of addresses at which nodes are at one time or another.
const ENDPOINTS: usize = 7;

/// How many clients write through each Envoy, and how often each of them sends a request.
const WRITERS: usize = 4;
const PERIOD: Duration = Duration::from_millis(500);

/// The index with a primary on every node.
const EVERY_NODE: &str = "every-node";

/// Statuses of operations whose outcome is unknown because a node has ended: the connection to it broke, or its primary
/// had to be asked again, which may find that a `create` was carried out.
const INTERRUPTED: &[u16] = &[500, 503, 409];

/// An own cluster, and two Envoys in front of it that learn of its nodes in different ways.
struct Scene {
    backend: Backend,
    endpoints: Endpoints,
    /// The endpoint of each node that Envoy may know.
    announced: BTreeMap<usize, usize>,
    next_endpoint: usize,
    file: HostFile,
    dns: NameServer,
    envoys: [Envoy; 2],
    steps: usize,
    _folder: TempDir,
}

impl Scene {
    async fn start() -> Result<Self> {
        let (mut endpoints, folder) = (Endpoints::reserve(ENDPOINTS).await?, tempfile::tempdir()?);
        let hosts = (0..3).map(|endpoint| endpoints.address(endpoint)).collect::<Result<Vec<_>>>()?;
        let mut backend = Backend::own("elastic", |options| options.published = hosts.clone()).await?;
        for (node, server) in backend.cluster()?.running_nodes().collect::<Vec<_>>() {
            endpoints.open(node, node, server).await?;
        }
        let file = HostFile::create(folder.path(), "es", &hosts)?;
        let dns = NameServer::start(PORT, &hosts).await?;
        let (eds, strict_dns) = tokio::try_join!(
            start_envoy("eds", &folder, &hosts, file.fields()),
            start_envoy("dns", &folder, &hosts, dns.fields("es", "nodes.test")),
        )?;
        let announced = (0..3).map(|node| (node, node)).collect();
        let scene = Self {
            backend,
            endpoints,
            announced,
            next_endpoint: 3,
            file,
            dns,
            envoys: [eds, strict_dns],
            steps: 0,
            _folder: folder,
        };
        // Primaries move to new nodes, not only replicas.
        scene.backend.set(json!({"cluster.routing.allocation.balance.prefer_primary": true})).await?;
        Ok(scene)
    }

    /// Makes a change while clients write. Verifies every answer, and that operations then go straight to their
    /// primaries. Operations may fail only with these statuses.
    async fn step(
        &mut self,
        what: &str,
        statuses: &[u16],
        change: impl AsyncFnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.steps += 1;
        let index = format!("step-{}", self.steps);
        let load = self.load(&index, json!({"number_of_replicas": 1})).await?;

        let (redirected, begun) = (self.redirected().await?, Instant::now());
        change(self).await.with_context(|| what.to_owned())?;
        let changed = begun.elapsed();
        let moved = self.wait_settled(begun).await?;
        let last = self.endpoints.witness.misrouted_after(&load, moved, REFRESH, async || self.query().await).await;
        let last = last.with_context(|| what.to_owned())?;

        let (all, wrong) = self.endpoints.witness.since(&index, begun);
        let redirected = self.redirected().await? - redirected;
        let every_node = self.load_every_node().await?;
        let tallies = self.backend.verify(&format!("elasticity, {what}"), vec![load, every_node]).await?;
        println!(
            "elasticity, {what}: {:.1} s; {wrong} of {all} operations were misrouted, until {last:.1?} after the last \
             primary had moved; {redirected} batches were redirected",
            changed.as_secs_f64()
        );
        self.backend.delete(&format!("/{index},{EVERY_NODE}")).await?;
        self.endpoints.forget();
        if !tallies[0].failed().is_empty() {
            println!("elasticity, {what}: {:?}", tallies[0]);
        }
        tallies[1].check(&[])?;
        match statuses {
            [] => tallies[0].check(&[]),
            _ if tallies[0].broken.get() > 0 => bail!("{:?}", tallies[0]),
            _ => tallies[0].expect_only(statuses),
        }
    }

    /// Makes an index with these settings. Starts clients that write to it through all Envoys, and waits until all
    /// operations go straight to their primaries.
    async fn load(&self, index: &str, settings: Value) -> Result<Load> {
        self.backend.make_index(index, &settings).await?;
        self.backend.wait_green().await?;
        let writers = self.envoys.iter().flat_map(|envoy| writers_to(envoy, index, "").take(WRITERS));
        let load = Load::start(index, writers.map(|writer| writer.every(PERIOD)));
        self.endpoints.witness.wait_routed(index).await?;
        Ok(load)
    }

    /// Does the same with an index that has a primary on every node.
    async fn load_every_node(&self) -> Result<Load> {
        let settings = json!({
            "number_of_shards": self.backend.nodes.len(),
            "routing.allocation.total_shards_per_node": 1,
        });
        self.load(EVERY_NODE, settings).await
    }

    /// Returns how many batches other nodes got than those that they named.
    async fn redirected(&self) -> Result<u64> {
        let mut sum = 0;
        for envoy in &self.envoys {
            sum += counted(envoy, "batches_redirected_total").await?;
        }
        Ok(sum)
    }

    /// Sends a query through each Envoy.
    async fn query(&self) {
        for envoy in &self.envoys {
            query(&self.backend.client, envoy).await;
        }
    }

    /// Waits until no shard moves. Returns the time of the last move of a primary since the change began.
    async fn wait_settled(&self, begun: Instant) -> Result<Instant> {
        let moved = wait::until(LIMIT, "no shard moves", async || {
            let health = self.backend.get("/_cluster/health").await?;
            let moving = ["relocating_shards", "initializing_shards", "unassigned_shards"];
            let is_moving = moving.iter().any(|kind| health[kind] != 0);
            Ok(if is_moving { None } else { self.endpoints.witness.stable_since() })
        });
        Ok(moved.await?.max(begun))
    }

    /// Tells Envoy about these nodes only.
    async fn announce(&self) -> Result<()> {
        let endpoints = self.announced.values().map(|endpoint| self.endpoints.address(*endpoint));
        let hosts = endpoints.collect::<Result<Vec<SocketAddr>>>()?;
        self.file.set(&hosts)?;
        self.dns.set(&hosts)?;
        for envoy in &self.envoys {
            wait::until(LIMIT, "Envoy knows the hosts", async || {
                let known = envoy.counter("cluster.es.membership_total").await?;
                Ok((known == hosts.len() as u64).then_some(()))
            })
            .await?;
        }
        Ok(())
    }

    /// Adds this many nodes.
    async fn add(&mut self, count: usize) -> Result<()> {
        let endpoints = (0..count).map(|_| self.take_endpoint()).collect::<Result<Vec<_>>>()?;
        let published: Vec<_> = endpoints.iter().map(|(_, address)| *address).collect();
        let nodes = self.backend.cluster()?.add(&published).await?;
        for (node, (endpoint, _)) in nodes.zip(endpoints) {
            self.arrive(node, endpoint).await?;
        }
        Ok(())
    }

    fn take_endpoint(&mut self) -> Result<(usize, SocketAddr)> {
        let endpoint = self.next_endpoint;
        self.next_endpoint += 1;
        Ok((endpoint, self.endpoints.address(endpoint)?))
    }

    /// Announces a node that has joined.
    async fn arrive(&mut self, node: usize, endpoint: usize) -> Result<()> {
        let server = self.backend.cluster()?.http_addr(node)?;
        self.backend.find_nodes()?;
        self.endpoints.open(endpoint, node, server).await?;
        self.announced.insert(node, endpoint);
        self.announce().await
    }

    /// Moves all shards off these nodes, and removes them.
    async fn remove(&mut self, nodes: &[usize]) -> Result<()> {
        self.backend.cluster()?.drain(nodes).await?;
        for node in nodes {
            self.leave(*node).await?;
        }
        self.backend.cluster()?.forget_drained().await
    }

    /// Stops a node after Envoy has learned that it goes, as Kubernetes does with a `preStop` that waits.
    async fn leave(&mut self, node: usize) -> Result<()> {
        let endpoint = self.announced.remove(&node).context("no such node")?;
        self.announce().await?;
        self.endpoints.wait_quiet(endpoint).await?;
        self.endpoints.close(endpoint).await?;
        self.backend.cluster()?.shut_down(node).await?;
        self.backend.find_nodes()
    }

    /// Starts a stopped node with the same name and data at another address.
    async fn come_back_elsewhere(&mut self, node: usize) -> Result<()> {
        let (endpoint, published) = self.take_endpoint()?;
        self.backend.cluster()?.move_to(node, published).await?;
        self.arrive(node, endpoint).await
    }

    /// Restarts a node at its address, as the manual of Elasticsearch says. Envoy is not told.
    async fn restart(&mut self, node: usize) -> Result<()> {
        const ENABLE: &str = "cluster.routing.allocation.enable";
        let endpoint = *self.announced.get(&node).context("no such node")?;
        self.backend.set(json!({ENABLE: "primaries"})).await?;
        self.backend.post("/_flush", json!({})).await?;
        // A node closes its connections first when it shuts down.
        self.endpoints.close(endpoint).await?;
        self.backend.cluster()?.shut_down(node).await?;
        self.backend.cluster()?.restart(node).await?;
        let server = self.backend.cluster()?.http_addr(node)?;
        self.endpoints.open(endpoint, node, server).await?;
        self.backend.set(json!({ENABLE: null})).await?;
        self.backend.wait_green().await
    }

    async fn stop(self) -> Result<()> {
        for envoy in self.envoys {
            check_filter(&envoy).await?;
            envoy.stop().await?;
        }
        self.backend.end().await
    }
}

async fn start_envoy(name: &str, folder: &TempDir, hosts: &[SocketAddr], fields: Value) -> Result<Envoy> {
    let tools = Tools::find()?;
    let config = Some(tools.root.join("envoy/one-cluster.yaml"));
    let options = EnvoyOptions::new(folder.path()).cluster("es", hosts.iter().copied()).edit(move |config| {
        discover_hosts(config, &fields);
        Ok(())
    });
    let filter = FilterConfig::Merged(json!({"cluster_state": {"refresh": format!("{}s", REFRESH.as_secs())}}));
    let options = EnvoyOptions { name: name.to_owned(), config, filter, concurrency: WORKERS, ..options };
    let envoy = Envoy::start(&tools, options).await?;
    envoy.wait_for_state(LIMIT).await?;
    Ok(envoy)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_write_while_nodes_come_go_move_and_restart() -> Result<()> {
    let mut scene = Scene::start().await?;
    scene
        .step("each of 3 nodes restarted", INTERRUPTED, async |scene| {
            for node in 0..3 {
                scene.restart(node).await?;
            }
            Ok(())
        })
        .await?;
    scene
        .step("a node moved to another address", INTERRUPTED, async |scene| {
            scene.leave(0).await?;
            scene.come_back_elsewhere(0).await
        })
        .await?;
    scene.step("from 3 to 5 nodes", &[], async |scene| scene.add(2).await).await?;
    scene
        .step("a node replaced by another", &[], async |scene| {
            scene.add(1).await?;
            scene.remove(&[1]).await
        })
        .await?;
    scene.step("from 5 to 2 nodes", &[], async |scene| scene.remove(&[0, 2, 3]).await).await?;
    scene.stop().await
}
