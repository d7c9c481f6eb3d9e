use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle::routing::{Formula, hash};
use bulk_reshuffle_e2e::load::Load;
use bulk_reshuffle_e2e::{FakeCluster, Reaction, Recorded};
use bulk_reshuffle_stack::{Client, wait};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::LIMIT;

/// The usual interval between two looks at the primaries' locations.
const BETWEEN_LOOKS: Duration = Duration::from_millis(25);

/// Returns how long the filter may take to apply a change, in addition to its refresh interval: for the state queries,
/// which take longer on a slow machine, as does a query of the test that goes through Envoy.
pub fn grace(slowest_query: Duration) -> Duration {
    Duration::from_secs(2) + 4 * slowest_query
}

/// How long no primary must have moved, to be sure that no other one follows.
const STABLE: Duration = Duration::from_secs(1);

/// A relay between Envoy and the nodes. It records for each operation whether it goes straight to the node with its
/// primary, or is misrouted: to another node or the coordinator.
pub struct Witness {
    relay: FakeCluster,
    nodes: usize,
    seen: Arc<Mutex<Seen>>,
    /// The nodes that are asked for the primaries' locations: the first that answers.
    asked: Arc<Mutex<Vec<SocketAddr>>>,
    looking: JoinHandle<()>,
}

struct Seen {
    owners: Owners,
    /// The time of the last move of a primary, by index, alias and data stream.
    moved: BTreeMap<String, Instant>,
    sightings: Vec<Sighting>,
}

/// The operations of one request for one index.
struct Sighting {
    at: Instant,
    index: String,
    /// The number of operations whose primary is known.
    operations: u64,
    misrouted: u64,
}

/// The locations of the primaries by index, alias and data stream.
#[derive(Debug, Default, PartialEq)]
struct Owners(BTreeMap<String, Shards>);

#[derive(Debug, Clone, PartialEq)]
struct Shards {
    formula: Formula,
    /// The node of each shard's primary, if it has started.
    nodes: Vec<Option<usize>>,
}

impl Witness {
    /// Starts a relay in front of these nodes, which are called `es-0`, `es-1`, …
    pub async fn start(nodes: &[SocketAddr]) -> Result<Self> {
        // Each node twice: as itself, and as part of the coordinator.
        let relay = FakeCluster::in_front_of(&[nodes, nodes].concat()).await?;
        let witness = Self::of(relay, nodes.len(), BETWEEN_LOOKS);
        witness.forward_to(nodes);
        Ok(witness)
    }

    /// Observes what arrives at a relay in front of this many nodes, once it [forwards](Self::relay_to) requests. Looks
    /// at the primaries' locations at this interval.
    pub fn of(relay: FakeCluster, nodes: usize, interval: Duration) -> Self {
        let seen = Seen { owners: Owners::default(), moved: BTreeMap::new(), sightings: Vec::new() };
        let (seen, asked) = (Arc::new(Mutex::new(seen)), Arc::default());
        let looking = tokio::spawn(look(Client::new(), Arc::clone(&asked), Arc::clone(&seen), interval));
        Self { relay, nodes, seen, asked, looking }
    }

    /// Forwards all requests to these nodes.
    fn forward_to(&self, nodes: &[SocketAddr]) {
        let count = nodes.len();
        self.relay_to([nodes, nodes].concat(), move |request| (request.node < count).then_some(request.node));
        *self.asked.lock().unwrap() = nodes.to_vec();
    }

    /// Forwards what arrives at each address of the relay to one of these servers. `chosen` returns the node that the
    /// filter has chosen for a request, or `None` if the request is for the coordinator.
    pub fn relay_to(
        &self,
        servers: Vec<SocketAddr>,
        chosen: impl Fn(&Recorded) -> Option<usize> + Send + Sync + 'static,
    ) {
        let (noted, forward) = (Arc::clone(&self.seen), Reaction::forward_to(servers));
        let forward_query = forward.clone();
        self.relay.react_to_state_queries(move |request| Some(forward_query(request)));
        self.relay.react(move |request| {
            noted.lock().unwrap().note(request, chosen(request));
            forward(request)
        });
    }

    /// Asks these nodes for the primaries' locations from now on.
    pub fn ask(&self, nodes: Vec<SocketAddr>) {
        *self.asked.lock().unwrap() = nodes;
    }

    /// Takes all nodes down, and brings up as many nodes of another cluster at the same addresses.
    pub async fn move_to(&mut self, nodes: &[SocketAddr]) -> Result<()> {
        ensure!(nodes.len() == self.nodes, "{} nodes instead of {}", nodes.len(), self.nodes);
        for node in 0..self.nodes {
            self.take_down(node).await?;
        }
        self.looking.abort();
        self.forward_to(nodes);
        self.seen.lock().unwrap().owners = Owners::default();
        self.looking =
            tokio::spawn(look(Client::new(), Arc::clone(&self.asked), Arc::clone(&self.seen), BETWEEN_LOOKS));
        for node in 0..self.nodes {
            self.bring_up(node).await?;
        }
        Ok(())
    }

    /// Returns the nodes' addresses for Envoy.
    pub fn nodes(&self) -> Vec<SocketAddr> {
        self.relay.addresses().take(self.nodes).collect()
    }

    /// Returns the coordinator's addresses for Envoy.
    pub fn coordinators(&self) -> Vec<SocketAddr> {
        self.relay.addresses().skip(self.nodes).collect()
    }

    /// Returns the relay, whose addresses can be closed and opened.
    pub fn relay(&mut self) -> &mut FakeCluster {
        &mut self.relay
    }

    /// Makes a node unreachable.
    pub async fn take_down(&mut self, node: usize) -> Result<()> {
        self.relay.take_down(node).await?;
        self.relay.take_down(self.nodes + node).await
    }

    /// Makes a node reachable again.
    pub async fn bring_up(&mut self, node: usize) -> Result<()> {
        self.relay.bring_up(node).await?;
        self.relay.bring_up(self.nodes + node).await
    }

    /// Returns the number of operations on an index since then, and how many of them were misrouted.
    pub fn since(&self, index: &str, then: Instant) -> (u64, u64) {
        let seen = self.seen.lock().unwrap();
        let later = seen.sightings.iter().filter(|sighting| sighting.at >= then && sighting.index == index);
        later.fold((0, 0), |(all, wrong), sighting| (all + sighting.operations, wrong + sighting.misrouted))
    }

    /// Returns the time of the last move of a primary, if any moved since then and none for a while.
    pub fn moved(&self, then: Instant) -> Option<Instant> {
        self.stable_since().filter(|changed| *changed > then)
    }

    /// Returns the time of the last move of a primary, if none has moved for a while.
    pub fn stable_since(&self) -> Option<Instant> {
        let moved = self.seen.lock().unwrap().moved.values().max().copied()?;
        (moved.elapsed() > STABLE).then_some(moved)
    }

    /// Waits until all operations on an index go straight to their primaries.
    pub async fn wait_routed(&self, index: &str) -> Result<()> {
        wait::until(LIMIT, "all operations go straight to their primaries", async || {
            let (all, wrong) = self.since(index, Instant::now() - Duration::from_secs(1));
            Ok((all > 0 && wrong == 0).then_some(()))
        })
        .await
    }

    /// Returns how long a load's operations were misrouted after a change at this time and all moves of primaries that
    /// follow, or an error if that was longer than this interval. Waits until this is certain. The query shows how slow
    /// the machine is.
    pub async fn misrouted_after(
        &self,
        load: &Load,
        change: Instant,
        interval: Duration,
        query: impl AsyncFn(),
    ) -> Result<Duration> {
        let index = load.index.as_str();
        let (slowest, change) = (Cell::new(Duration::ZERO), Cell::new(change));
        // No operation may be misrouted from the end on, observed for another interval.
        let (all, wrong) = wait::until(LIMIT, "operations are observed for long enough after a change", async || {
            let begun = Instant::now();
            query().await;
            slowest.set(slowest.get().max(begun.elapsed()));
            // A cluster moves shards in waves, between which it seems to be done.
            let moved = self.seen.lock().unwrap().moved.get(index).copied();
            change.set(moved.map_or(change.get(), |moved| change.get().max(moved)));
            // A request that the filter has read before the change may reach its nodes until it is answered.
            let end = change.get() + interval + grace(slowest.get()) + load.tally.longest();
            let (all, wrong) = self.since(index, end);
            Ok((all > 0 && Instant::now() >= end + interval).then_some((all, wrong)))
        })
        .await?;
        let is_misrouted = |sighting: &&Sighting| sighting.index == index && sighting.misrouted > 0;
        let last = self.seen.lock().unwrap().sightings.iter().rfind(is_misrouted).map(|sighting| sighting.at);
        let duration = last.map_or(Duration::ZERO, |last| last.saturating_duration_since(change.get()));
        ensure!(wrong == 0, "{wrong} of {all} operations were misrouted, as late as {duration:.1?} after the change");
        Ok(duration)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

impl Seen {
    fn found(&mut self, owners: Owners) {
        let now = Instant::now();
        let names = owners.0.keys().chain(self.owners.0.keys());
        let moved = names.filter(|name| owners.0.get(*name) != self.owners.0.get(*name));
        self.moved.extend(moved.map(|name| (name.clone(), now)));
        self.owners = owners;
    }

    fn note(&mut self, request: &Recorded, chosen: Option<usize>) {
        // Ignore requests other than the writers' bulk requests.
        let Ok(operations) = request.operations() else { return };
        let Some(first) = operations.first() else { return };
        let mut sighting = Sighting { at: Instant::now(), index: first.index.clone(), operations: 0, misrouted: 0 };
        for operation in &operations {
            let shards = self.owners.0.get(&operation.index);
            let shard = shards.zip(operation.id.as_deref()).map(|(shards, id)| shards.owner(id));
            // Without an id or a started primary, there is no right node.
            let Some(Some(owner)) = shard else { continue };
            sighting.operations += 1;
            sighting.misrouted += u64::from(chosen != Some(owner));
        }
        self.sightings.push(sighting);
    }
}

impl Shards {
    fn owner(&self, id: &str) -> Option<usize> {
        self.nodes.get(self.formula.shard(hash(id)) as usize).copied()?
    }
}

/// Polls the primaries' locations continuously.
async fn look(client: Client, nodes: Arc<Mutex<Vec<SocketAddr>>>, seen: Arc<Mutex<Seen>>, interval: Duration) {
    loop {
        if let Some(owners) = Owners::ask_any(&client, &nodes).await {
            seen.lock().unwrap().found(owners);
        }
        tokio::time::sleep(interval).await;
    }
}

impl Owners {
    async fn ask_any(client: &Client, nodes: &Mutex<Vec<SocketAddr>>) -> Option<Self> {
        let nodes = nodes.lock().unwrap().clone();
        for node in nodes {
            if let Ok(owners) = Self::ask(client, node).await {
                return Some(owners);
            }
        }
        None
    }

    async fn ask(client: &Client, node: SocketAddr) -> Result<Self> {
        const STATE: &str = "/_cluster/state/nodes,routing_table,metadata?local=true&filter_path=nodes.*.name,\
            metadata.indices.*.routing_num_shards,metadata.indices.*.settings.index.version.created,\
            routing_table.indices.*.shards.*.primary,\
            routing_table.indices.*.shards.*.state,routing_table.indices.*.shards.*.node";
        let client = client.with_timeout(Duration::from_secs(5));
        let ask = async |path: &str| client.get_json(&format!("http://{node}{path}")).await;
        let state = ask(STATE).await?;
        let mut owners = BTreeMap::new();
        for (index, metadata) in state["metadata"]["indices"].as_object().context("no indices")? {
            let Some(shards) = state["routing_table"]["indices"][index]["shards"].as_object() else { continue };
            let nodes: Vec<_> = (0..shards.len()).map(|shard| primary(&shards[&shard.to_string()], &state)).collect();
            let created = metadata["settings"]["index"]["version"]["created"].as_str().context("no version")?;
            let routing_shards = metadata["routing_num_shards"].as_u64().context("no routing shards")?;
            let formula = Formula::of_index(created.parse()?, u32::try_from(nodes.len())?, routing_shards.try_into()?);
            let shards = Shards { formula: formula.ok().context("no formula")?, nodes };
            owners.insert(index.clone(), shards);
        }
        for (name, index) in other_names(&ask("/_alias").await?, &ask("/_data_stream").await?)? {
            let shards = owners.get(&index).context("the index is not in the state")?.clone();
            owners.insert(name, shards);
        }
        Ok(Self(owners))
    }
}

/// Returns the aliases and data streams, each with the index that it writes to.
fn other_names(aliases: &Value, streams: &Value) -> Result<Vec<(String, String)>> {
    let mut names = BTreeMap::<String, String>::new();
    for (index, found) in aliases.as_object().context("no aliases")? {
        for (alias, details) in found["aliases"].as_object().context("no aliases")? {
            if details["is_write_index"] == true || !names.contains_key(alias) {
                names.insert(alias.clone(), index.clone());
            }
        }
    }
    for stream in streams["data_streams"].as_array().context("no data streams")? {
        let index = stream["indices"].as_array().and_then(|indices| indices.last()?["index_name"].as_str());
        let name = stream["name"].as_str().context("no name")?;
        names.insert(name.to_owned(), index.context("no index")?.to_owned());
    }
    Ok(names.into_iter().collect())
}

/// Returns the number of the node with a shard's primary.
fn primary(copies: &Value, state: &Value) -> Option<usize> {
    let is_primary =
        |copy: &&Value| copy["primary"] == true && ["STARTED", "RELOCATING"].map(Value::from).contains(&copy["state"]);
    let node = copies.as_array()?.iter().find(is_primary)?["node"].as_str()?;
    state["nodes"][node]["name"].as_str()?.strip_prefix("es-")?.parse().ok()
}
