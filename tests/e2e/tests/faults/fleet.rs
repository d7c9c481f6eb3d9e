use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::load::Writer;
use bulk_reshuffle_e2e::{ShippedFiles, bulk_request, check_filter};
use bulk_reshuffle_stack::{Client, Envoy, port, wait};

use crate::LIMIT;
use crate::backend::Backend;

const HEALTHY: &str = "cluster.replicas.membership_healthy";
const ACTIVE: &str = "http.elasticsearch.downstream_rq_active";
const COMPLETED: &str = "http.elasticsearch.downstream_rq_completed";

/// The second replica of `envoy/front.yaml`.
const SECOND: &str = "              - endpoint:
                  address: {socket_address: {address: 127.0.0.1, port_value: 9212}}
                  health_check_config: {port_value: 9912}
";

#[derive(Debug, Clone, Copy)]
pub struct Arrangement {
    pub name: &'static str,
    pub replicas: usize,
    /// The number of workers of each replica.
    pub workers: u32,
    /// The text to replace in the front's configuration, and its replacement.
    pub change: Option<(&'static str, &'static str)>,
}

impl Arrangement {
    /// The shipped arrangement with two replicas.
    pub const SHIPPED: Self = Self { name: "two replicas by caller", replicas: 2, workers: 1, change: None };
}

/// The front's connections to a replica: those that are open, and how many it ever began, of which some failed.
#[derive(Debug, Clone, Copy)]
pub struct Connections {
    open: u64,
    begun: u64,
    failed: u64,
}

impl Connections {
    /// Returns the largest number of connections on which the replica may have got a request since then.
    pub fn usable_since(&self, then: &Self) -> u64 {
        then.open + (self.begun - then.begun) - (self.failed - then.failed)
    }
}

/// The shipped Envoys in front of the same nodes, and the shipped front proxy before them.
pub struct Fleet {
    folder: PathBuf,
    nodes: Vec<SocketAddr>,
    arrangement: Arrangement,
    /// The ports of each replica's listener and administration interface.
    ports: Vec<(u16, u16)>,
    pub front: Envoy,
    pub replicas: Vec<Envoy>,
    starts: usize,
    client: Client,
}

impl Fleet {
    /// Starts the shipped arrangement in front of the nodes.
    pub async fn of(backend: &Backend, folder: &Path) -> Result<Self> {
        Self::start(folder, backend.nodes.iter().map(|(_, address)| *address), Arrangement::SHIPPED).await
    }

    /// Starts the fleet; returns when each replica knows the cluster state.
    pub async fn start(
        run_dir: &Path,
        nodes: impl IntoIterator<Item = SocketAddr>,
        arrangement: Arrangement,
    ) -> Result<Self> {
        let (folder, nodes) = (run_dir.join(arrangement.name), nodes.into_iter().collect());
        let mut ports = Vec::new();
        for _ in 0..arrangement.replicas {
            ports.push((port::free()?, port::free()?));
        }
        let mut files = ShippedFiles::new(folder.join("front"))?;
        if let [_] = ports[..] {
            files = files.replace(SECOND, "");
        }
        if let Some((from, to)) = arrangement.change {
            files = files.replace(from, to);
        }
        for (number, (port, admin)) in (1..).zip(&ports) {
            files = files.port(9210 + number, *port);
            files = files.replace(format!("{{port_value: 991{number}}}"), format!("{{port_value: {admin}}}"));
        }
        let front = files.start("front.yaml").await?;
        let (replicas, client) = (Vec::new(), Client::new());
        let mut fleet = Self { folder, nodes, arrangement, ports, front, replicas, starts: 0, client };
        for number in 0..arrangement.replicas {
            let replica = fleet.start_replica(number).await?;
            fleet.replicas.push(replica);
        }
        for replica in &fleet.replicas {
            replica.wait_for_state(LIMIT).await?;
        }
        fleet.wait_healthy(arrangement.replicas).await?;
        Ok(fleet)
    }

    /// Returns a writer that sends to the front.
    pub fn writer(&self, number: u64, index: &str, documents: usize) -> Writer {
        Writer::new(number, self.front.url(&format!("/{index}/_bulk")), 1..=documents, 200)
    }

    /// Returns the replicas that serve a tenant's requests, each sent on a connection of its own. No other client may
    /// send requests meanwhile.
    pub async fn homes(&self, index: &str, tenant: &str) -> Result<BTreeSet<usize>> {
        // None of these queries prevents requests from sharing a replica.
        const QUERIES: [&str; 6] = ["", "", "?filter_path=took", "?filter_path=errors", "?pretty", ""];
        let before = self.completed().await?;
        for query in QUERIES {
            let (url, key) = (self.front.url(&format!("/{index}/_bulk{query}")), format!("ApiKey {tenant}"));
            Client::new().send(bulk_request(&url, &[("authorization", key.as_str())], "\n")?).await?;
        }
        wait::until(LIMIT, "the replicas count the requests", async || {
            let after = self.completed().await?;
            let served: Vec<_> = after.iter().zip(&before).map(|(after, before)| (after - before) as usize).collect();
            let homes = (0..served.len()).filter(|number| served[*number] > 0).collect();
            Ok((served.iter().sum::<usize>() == QUERIES.len()).then_some(homes))
        })
        .await
    }

    /// Returns the number of requests that the filters sent in batches, and the number of batches.
    pub async fn batched(&self) -> Result<(u64, u64)> {
        let (mut requests, mut batches) = (0, 0);
        for replica in &self.replicas {
            requests += replica.stats_with("bulk_reshuffle_batch_requests_total").await?.values().sum::<u64>();
            batches += replica.stats_with("bulk_reshuffle_batches_total").await?.values().sum::<u64>();
        }
        Ok((requests, batches))
    }

    pub async fn completed(&self) -> Result<Vec<u64>> {
        let mut counts = Vec::new();
        for replica in &self.replicas {
            counts.push(replica.counter(COMPLETED).await?);
        }
        Ok(counts)
    }

    /// Returns how many requests are in flight in a replica.
    pub async fn active(&self, number: usize) -> Result<u64> {
        self.replicas[number].counter(ACTIVE).await
    }

    pub async fn connections(&self, number: usize) -> Result<Connections> {
        let (port, _) = self.ports.get(number).context("no such replica")?;
        let answer = self.client.get(&self.front.admin_url("/clusters")).await?.ok()?;
        // The answer has a line for each number, such as `replicas::127.0.0.1:9211::cx_active::1`.
        let count = |name: &str| -> Result<u64> {
            let start = format!("replicas::{}::{name}::", port::loopback(*port));
            let count = answer.text().lines().find_map(|line| line.strip_prefix(&start)?.parse().ok());
            count.with_context(|| format!("the front does not report {start}"))
        };
        Ok(Connections { open: count("cx_active")?, begun: count("cx_total")?, failed: count("cx_connect_fail")? })
    }

    /// Replaces a replica as an operator does who wants no request to fail: drains it, ends it, and starts another in
    /// its place. Returns how many requests were in flight when the drain began.
    pub async fn replace(&mut self, number: usize) -> Result<u64> {
        let (replica, active) = (&self.replicas[number], self.active(number).await?);
        self.client.post(&replica.admin_url("/healthcheck/fail"), "text/plain", "").await?.ok()?;
        self.wait_healthy(self.replicas.len() - 1).await?;
        let completed = Cell::new(None);
        wait::until(LIMIT, "the replica answers its requests in flight", async || {
            let (active, now) = (replica.counter(ACTIVE).await?, replica.counter(COMPLETED).await?);
            let quiet = active == 0 && completed.replace(Some(now)) == Some(now);
            Ok(quiet.then_some(()))
        })
        .await?;
        check_filter(replica).await?;
        replica.process().terminate()?;
        wait::until(LIMIT, "the replica ends", async || Ok(replica.process().exit_status()?)).await?;
        self.bring_up(number).await?;
        Ok(active)
    }

    pub fn kill(&self, number: usize) -> Result<()> {
        self.replicas[number].process().kill()
    }

    /// Restarts a replica that has ended, and waits until the front considers it healthy.
    pub async fn bring_up(&mut self, number: usize) -> Result<()> {
        self.replicas[number] = self.start_replica(number).await?;
        self.wait_healthy(self.replicas.len()).await
    }

    /// Waits until the front considers this many replicas healthy.
    pub async fn wait_healthy(&self, number: usize) -> Result<()> {
        let what = format!("the front sees {number} healthy replicas");
        let is = async || Ok((self.front.counter(HEALTHY).await? == number as u64).then_some(()));
        wait::until(LIMIT, &what, is).await
    }

    pub async fn end(self) -> Result<()> {
        for replica in self.replicas {
            check_filter(&replica).await?;
            replica.stop().await?;
        }
        self.front.stop().await
    }

    async fn start_replica(&mut self, number: usize) -> Result<Envoy> {
        self.starts += 1;
        let (port, admin) = *self.ports.get(number).context("no such replica")?;
        let files = ShippedFiles::new(self.folder.join(format!("replica-{number}-{}", self.starts)))?;
        let files = files.ports(port, admin).workers(self.arrangement.workers);
        files.nodes(self.nodes.iter().copied()).start("envoy.yaml").await
    }
}
