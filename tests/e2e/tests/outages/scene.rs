use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use bulk_reshuffle_stack::Client;
use serde_json::json;

use crate::LIMIT;
use crate::black_hole::BlackHole;
use crate::stage::{Stage, Turn};
use crate::way::Way;
use crate::work::Work;
use crate::writers::{Outcome, Pace, Writers};

/// How long the writers write before an event: longer than a filter takes to learn of new indices.
const BEFORE: Duration = Duration::from_secs(6);

/// The stage with a test's indices.
pub struct Scene {
    /// The first part of the names of indices.
    name: &'static str,
    pub stage: Stage,
    turn: Turn,
    /// The indices and data streams that were made.
    made: Vec<(Work, String)>,
}

impl Scene {
    pub async fn start(name: &'static str) -> Result<Self> {
        let (stage, turn) = Stage::take().await?;
        Ok(Self { name, stage, turn, made: Vec::new() })
    }

    /// Returns the ways through all Envoys.
    pub fn ways(&self) -> Vec<Way> {
        self.stage.proxies.iter().map(|proxy| proxy.way()).collect()
    }

    /// Returns the way without a proxy.
    pub fn direct(&self) -> Way {
        let servers = self.stage.cluster.addresses().map(|(_, address)| format!("http://{address}")).collect();
        Way { name: "no proxy", short: "direct", servers, has_filter: false }
    }

    /// Loses all packets to a node's HTTP address from now on.
    pub fn lose_packets_to(&self, node: usize) -> Result<BlackHole> {
        let IpAddr::V4(address) = self.stage.cluster.http_addr(node)?.ip() else { bail!("the address is not IPv4") };
        BlackHole::open(address)
    }

    /// Starts to write through all these ways, each to its own indices. Returns after a while.
    pub async fn write(&mut self, ways: &[Way], work: &[Work], replicas: usize, pace: Pace) -> Result<Writers> {
        let mut indices = Vec::new();
        for way in ways {
            for work in work {
                indices.push((way.clone(), *work, self.make(way, *work, replicas).await?));
            }
        }
        self.stage.cluster.wait_green(LIMIT).await?;
        let mut writers = Writers::start(indices, pace);
        tokio::time::sleep(BEFORE).await;
        writers.begin();
        Ok(writers)
    }

    /// Makes an index or a data stream, and returns its name.
    async fn make(&mut self, way: &Way, work: Work, replicas: usize) -> Result<String> {
        let settings = json!({"number_of_shards": 3, "number_of_replicas": replicas});
        let (name, node) = (format!("{}-{}-{}", self.name, way.short, work.action()), self.stage.cluster.base_url(0)?);
        for (path, body) in work.setup(&name, &settings) {
            Client::new().put_json(&format!("{node}{path}"), &body).await?.ok()?;
        }
        self.made.push((work, name.clone()));
        Ok(name)
    }

    /// Stops the writers, and compares what they were told with the documents.
    pub async fn read(&self, mut writers: Writers) -> Result<Vec<Outcome>> {
        writers.check()?;
        writers.end(&self.stage.cluster.base_url(0)?).await
    }

    /// Leaves the stage to the next test.
    pub async fn end(mut self) -> Result<()> {
        for proxy in &self.stage.proxies {
            proxy.check().await?;
        }
        let node = self.stage.cluster.base_url(0)?;
        for (work, index) in self.made {
            Client::new().delete(&format!("{node}{}", work.path(&index))).await?.ok()?;
        }
        self.stage.cluster.wait_green(LIMIT).await?;
        *self.turn = Some(self.stage);
        Ok(())
    }
}
