use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bulk_reshuffle_stack::{Response as Answer, port};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::reaction::{Body, json_response};
use super::recorded::Journal;
use super::{ClusterScript, Gate, Item, Reaction, Recorded};
use crate::lines;
use crate::relay::Server;
use crate::shared_clusters::Nodes;

/// Servers on loopback that act as the nodes of a cluster and follow the test's script.
///
/// A node answers cluster-state queries from the [`ClusterScript`] and bulk requests with the reaction that the test
/// sets (by default, it carries them out). It answers any other request with a description of that request.
#[derive(Debug)]
pub struct FakeCluster {
    nodes: Vec<Server>,
    shared: Arc<Shared>,
}

type React = Arc<dyn Fn(&Recorded) -> Reaction + Send + Sync>;
type ReactToQuestion = Arc<dyn Fn(&Recorded) -> Option<Reaction> + Send + Sync>;

struct Shared {
    script: Mutex<ClusterScript>,
    /// The nodes' addresses, as they report them.
    addresses: Vec<SocketAddr>,
    react: Mutex<React>,
    react_to_state_query: Mutex<ReactToQuestion>,
    bulks: Journal,
    others: Journal,
    /// The requests at each node.
    traffic: Vec<Traffic>,
}

/// How many requests a node is answering, and when it last began or finished one.
struct Traffic(Mutex<(usize, Instant)>);

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").field("script", &self.script).finish_non_exhaustive()
    }
}

impl FakeCluster {
    pub async fn start(script: ClusterScript) -> Result<Self> {
        let addresses = port::free_ports(script.nodes)?.into_iter().map(port::loopback).collect();
        Self::start_at(script, addresses).await
    }

    /// Starts nodes at these addresses. The script may have fewer nodes until a test adds more.
    pub async fn start_at(script: ClusterScript, addresses: Vec<SocketAddr>) -> Result<Self> {
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            addresses: addresses.clone(),
            react: Mutex::new(Arc::new(|_| Reaction::items())),
            react_to_state_query: Mutex::new(Arc::new(|_| None)),
            bulks: Journal::default(),
            others: Journal::default(),
            traffic: addresses.iter().map(|_| Traffic(Mutex::new((0, Instant::now())))).collect(),
        });
        let mut nodes = Vec::new();
        for (node, address) in addresses.into_iter().enumerate() {
            nodes.push(start_node(address, node, Arc::clone(&shared)).await?);
        }
        Ok(Self { nodes, shared })
    }

    /// Starts servers that record requests and forward them, each to one of these nodes of a real cluster.
    pub async fn in_front_of(nodes: &[SocketAddr]) -> Result<Self> {
        let cluster = Self::start(ClusterScript::new(nodes.len())).await?;
        let forward = Reaction::forward_to(nodes.to_vec());
        cluster.react(forward.clone());
        cluster.react_to_state_queries(move |request| Some(forward(request)));
        Ok(cluster)
    }

    /// Does the same for named nodes. Returns also their names with the servers' addresses.
    pub async fn relay(nodes: &Nodes) -> Result<(Self, Nodes)> {
        let addresses: Vec<_> = nodes.iter().map(|(_, address)| *address).collect();
        let relay = Self::in_front_of(&addresses).await?;
        let named = nodes.iter().map(|(name, _)| name.clone()).zip(relay.addresses()).collect();
        Ok((relay, named))
    }

    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.nodes.iter().map(|node| node.address)
    }

    /// Sets the nodes' reaction to bulk requests from now on.
    pub fn react(&self, react: impl Fn(&Recorded) -> Reaction + Send + Sync + 'static) {
        *self.shared.react.lock().unwrap() = Arc::new(react);
    }

    /// Sets one node's reaction to bulk requests from now on. The other nodes carry them out.
    pub fn react_at(&self, node: usize, reaction: Reaction) {
        self.react(move |request| if request.node == node { reaction.clone() } else { Reaction::items() });
    }

    /// Sets the reaction to this many next bulk requests. The nodes carry out the rest.
    pub fn react_first(&self, count: usize, reaction: Reaction) {
        let seen = AtomicUsize::new(0);
        self.react(move |_| match seen.fetch_add(1, Ordering::Relaxed) < count {
            true => reaction.clone(),
            false => Reaction::items(),
        });
    }

    /// Makes the nodes carry out bulk requests only once the returned gate is open.
    pub fn hold(&self) -> Gate {
        self.hold_if(|_| true)
    }

    /// Does the same for the bulk requests that satisfy a condition. The nodes carry out the others at once.
    pub fn hold_if(&self, is_held: impl Fn(&Recorded) -> bool + Send + Sync + 'static) -> Gate {
        self.react_with_gate(move |request, gate| match is_held(request) {
            true => Reaction::items().after(gate),
            false => Reaction::items(),
        })
    }

    /// Sets the nodes' reaction to bulk requests, which may wait for the returned gate.
    pub fn react_with_gate(&self, react: impl Fn(&Recorded, &Gate) -> Reaction + Send + Sync + 'static) -> Gate {
        let gate = Gate::closed();
        let closed = gate.clone();
        self.react(move |request| react(request, &closed));
        gate
    }

    /// Sets the nodes' reaction to all other requests from now on. If it returns `None`, they answer from the script.
    pub fn react_to_state_queries(&self, react: impl Fn(&Recorded) -> Option<Reaction> + Send + Sync + 'static) {
        *self.shared.react_to_state_query.lock().unwrap() = Arc::new(react);
    }

    /// Changes the cluster state, and increments its version.
    pub fn change(&self, change: impl FnOnce(&mut ClusterScript)) {
        let mut script = self.shared.script.lock().unwrap();
        change(&mut script);
        script.next_version();
    }

    pub fn script(&self) -> ClusterScript {
        self.shared.script.lock().unwrap().clone()
    }

    /// Returns an id of the index `books` whose primary is on this node; each number yields a different id.
    pub fn book(&self, node: usize, number: usize) -> Result<String> {
        self.script().ids("books", node)?.nth(number).context("no id")
    }

    /// Returns the lines of an operation that writes a book on this node: see [`book`](Self::book).
    pub fn write_book(&self, node: usize, number: usize) -> Result<String> {
        Ok(lines::index("books", &self.book(node, number)?, u64::try_from(number)?))
    }

    /// Returns the lines of an operation on each node with a primary of `books`: see [`write_book`](Self::write_book).
    pub fn write_books(&self, number: usize) -> String {
        self.script().owners("books").into_iter().map(|node| self.write_book(node, number).unwrap()).collect()
    }

    /// Checks that an answer has the items of [`write_books`](Self::write_books).
    pub fn check_books(&self, number: usize, answer: &Answer) -> Result<()> {
        let items = Item::read_all(answer)?;
        let found: Vec<_> = items.into_iter().map(|item| (item.id.clone(), item.number(), item.status)).collect();
        let owners = self.script().owners("books");
        let expected = owners.into_iter().map(|node| Ok((self.book(node, number)?, Some(number as u64), 201)));
        anyhow::ensure!(found == expected.collect::<Result<Vec<_>>>()?, "{found:?}");
        Ok(())
    }

    /// Returns the bulk requests in the order of arrival.
    pub fn bulks(&self) -> Vec<Recorded> {
        self.shared.bulks.read()
    }

    pub fn bulks_at(&self, node: usize) -> Vec<Recorded> {
        self.bulks().into_iter().filter(|request| request.node == node).collect()
    }

    /// Returns the only bulk request that a node received, or an error if there is not exactly one.
    pub fn only_bulk_at(&self, node: usize) -> Result<Recorded> {
        let found = self.bulks_at(node);
        anyhow::ensure!(found.len() == 1, "{} bulk requests at es-{node}", found.len());
        found.into_iter().next().context("no bulk request")
    }

    /// Returns all requests except bulk requests.
    pub fn others(&self) -> Vec<Recorded> {
        self.shared.others.read()
    }

    pub async fn wait_for_bulks(&self, what: &str, is_so: impl FnMut(&[Recorded]) -> bool) -> Result<Vec<Recorded>> {
        self.shared.bulks.wait_for(what, is_so).await
    }

    pub async fn wait_for_others(&self, what: &str, is_so: impl FnMut(&[Recorded]) -> bool) -> Result<Vec<Recorded>> {
        self.shared.others.wait_for(what, is_so).await
    }

    pub fn forget(&self) {
        self.shared.bulks.clear();
        self.shared.others.clear();
    }

    /// Reports whether a node has had no request for this time.
    pub fn is_quiet(&self, node: usize, time: Duration) -> bool {
        let traffic = self.shared.traffic.get(node).map(|traffic| *traffic.0.lock().unwrap());
        traffic.is_none_or(|(active, last)| active == 0 && last.elapsed() >= time)
    }

    /// Closes a node's port and all its connections.
    pub async fn take_down(&mut self, node: usize) -> Result<()> {
        self.node(node)?.stop().await;
        Ok(())
    }

    /// Reopens the port of a node that was taken down.
    pub async fn bring_up(&mut self, node: usize) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let found = self.node(node)?;
        *found = start_node(found.address, node, shared).await?;
        Ok(())
    }

    fn node(&mut self, node: usize) -> Result<&mut Server> {
        self.nodes.get_mut(node).with_context(|| format!("no node {node}"))
    }
}

/// A request that a node is answering.
struct Active(Arc<Shared>, usize);

impl Active {
    fn begin(shared: &Arc<Shared>, node: usize) -> Self {
        shared.count(node, |active| active + 1);
        Self(Arc::clone(shared), node)
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.count(self.1, |active| active.saturating_sub(1));
    }
}

impl Shared {
    fn count(&self, node: usize, change: impl FnOnce(usize) -> usize) {
        if let Some(traffic) = self.traffic.get(node) {
            let mut traffic = traffic.0.lock().unwrap();
            *traffic = (change(traffic.0), Instant::now());
        }
    }

    /// Returns a node's response; an error closes the connection.
    async fn answer(&self, request: Recorded) -> Result<Response<Body>> {
        if request.is_bulk() {
            let react = Arc::clone(&self.react.lock().unwrap());
            // Before the test can see the request and change the reaction.
            let reaction = react(&request);
            self.bulks.write(request.clone());
            return reaction.respond(&request).await;
        }
        let react = Arc::clone(&self.react_to_state_query.lock().unwrap());
        let reaction = react(&request);
        self.others.write(request.clone());
        match reaction {
            Some(reaction) => reaction.respond(&request).await,
            None => json_response(&self.truth(&request)?),
        }
    }

    /// Returns the answer from the script, or else a description of the request.
    fn truth(&self, request: &Recorded) -> Result<Value> {
        let script = self.script.lock().unwrap();
        Ok(match request.path() {
            "/_cluster/state/version" => script.version(),
            path if path.starts_with("/_cluster/state/") => script.state()?,
            "/_alias" => script.aliases(),
            "/_cluster/settings" => json!({}),
            "/_nodes/http" => ClusterScript::addresses(self.addresses.iter().take(script.nodes)),
            "/_nodes/_local" => script.local(request.node),
            _ => json!({
                "fake": format!("es-{}", request.node),
                "method": request.method.as_str(),
                "target": request.target,
                "bytes": request.body.len(),
            }),
        })
    }
}

async fn start_node(address: SocketAddr, number: usize, shared: Arc<Shared>) -> Result<Server> {
    Server::start(address, move |stream| serve(stream, number, Arc::clone(&shared))).await
}

async fn serve(stream: TcpStream, number: usize, shared: Arc<Shared>) {
    let service = service_fn(|request| {
        let shared = Arc::clone(&shared);
        async move {
            let _active = Active::begin(&shared, number);
            shared.answer(record(number, request).await?).await
        }
    });
    // An error means that the client disconnected, or that the script closes the connection.
    let server = auto::Builder::new(TokioExecutor::new());
    server.serve_connection(TokioIo::new(stream), service).await.ok();
}

async fn record(node: usize, request: Request<Incoming>) -> Result<Recorded> {
    let (head, body) = request.into_parts();
    Ok(Recorded {
        node,
        version: head.version,
        method: head.method,
        // In HTTP/2 this is the whole URI.
        target: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: head.headers,
        body: body.collect().await?.to_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use bulk_reshuffle_stack::Client;

    use super::*;

    #[tokio::test]
    async fn a_node_answers_unless_it_is_down_and_only_one_node_gets_another_reaction() {
        let mut cluster = FakeCluster::start(ClusterScript::three_nodes()).await.unwrap();
        let urls: Vec<_> = cluster.addresses().map(|address| format!("http://{address}/_bulk")).collect();
        let write = async |node: usize| {
            Client::new().post_ndjson(&urls[node], lines::index("books", "1", 7)).await.map(|answer| answer.status)
        };
        cluster.react_at(1, Reaction::refusal(429, "busy_exception", "later"));
        for (node, status) in [(0, 200), (1, 429), (2, 200)] {
            assert_eq!(write(node).await.unwrap(), status);
        }
        cluster.take_down(2).await.unwrap();
        assert!(write(2).await.is_err());
        cluster.bring_up(2).await.unwrap();
        assert_eq!(write(2).await.unwrap(), 200);
        assert_eq!(cluster.bulks().iter().map(|bulk| bulk.node).collect::<Vec<_>>(), [0, 1, 2, 2]);
    }
}
