/// The requests that clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// The number of clients. Each sends one request at a time.
    pub clients: usize,
    /// The number of requests of all clients together.
    pub requests: usize,
    /// The number of documents in each request.
    pub documents: usize,
    /// The number of indices that the documents are spread over, round robin.
    pub indices: usize,
    /// The number of further requests of one document that wait for the first node all the time. The others then go to
    /// the other nodes.
    pub waiting: usize,
}

impl Load {
    /// Returns the number of documents that are measured.
    pub fn all_documents(self) -> usize {
        self.requests.saturating_mul(self.documents)
    }
}

/// Cases that differ in one growing quantity.
#[derive(Debug, Clone)]
pub struct Series {
    /// The growing quantity, and the load.
    pub name: &'static str,
    pub cases: Vec<Case>,
}

/// A load, and a cluster for it.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The value of the growing quantity.
    pub size: usize,
    pub nodes: usize,
    /// The number of indices. Documents go to them round robin.
    pub indices: usize,
    /// The number of primaries of each index.
    pub shards: usize,
    /// Whether one Envoy cluster has all nodes.
    pub one_cluster: bool,
    pub load: Load,
}

/// Returns all series, with `scale` times as many requests as a quick run needs.
pub fn plan(scale: usize) -> Vec<Series> {
    let load = |clients, requests: usize, documents| {
        // Each client sends several requests. Otherwise the cost of connections would dominate.
        let requests = (requests * scale).max(if documents == 1 { 5 * clients } else { 0 });
        Load { clients, requests, documents, indices: 1, waiting: 0 }
    };
    let of_nodes = |load: &dyn Fn(usize) -> Load| {
        let case = |nodes| Case { size: nodes, nodes, indices: 1, shards: 300, one_cluster: false, load: load(nodes) };
        [3, 30, 300].map(case).to_vec()
    };
    let of_shards = |is_spread: bool| {
        let case = |(indices, shards)| {
            let load = Load { indices: if is_spread { indices } else { 1 }, ..load(8, 10, 1_000) };
            Case { size: indices * shards, nodes: 3, indices, shards, one_cluster: false, load }
        };
        [(1, 6), (100, 10), (10_000, 10)].map(case).to_vec()
    };
    let small = |size, load| Case { size, nodes: 3, indices: 1, shards: 6, one_cluster: false, load };
    let clients = |clients| small(clients, load(clients, 1_000, 1));
    let beside = |waiting| small(waiting, Load { waiting, ..load(64, 1_000, 1) });
    let of_clusters = |load| {
        let own = Case { size: 301, nodes: 300, indices: 1, shards: 300, one_cluster: false, load };
        vec![own, Case { size: 1, one_cluster: true, ..own }]
    };
    vec![
        Series { name: "nodes; 10 clients for each, 1 document", cases: of_nodes(&|nodes| load(10 * nodes, 1_000, 1)) },
        Series { name: "nodes; 64 clients, 1 document", cases: of_nodes(&|_| load(64, 1_000, 1)) },
        Series { name: "nodes; 4 clients, 1,000 documents", cases: of_nodes(&|_| load(4, 10, 1_000)) },
        Series { name: "Envoy clusters of 300 nodes; 64 clients, 1 document", cases: of_clusters(load(64, 1_000, 1)) },
        Series {
            name: "Envoy clusters of 300 nodes; 4 clients, 1,000 documents",
            cases: of_clusters(load(4, 10, 1_000)),
        },
        Series { name: "shards; 1,000 documents for one index", cases: of_shards(false) },
        Series { name: "shards; 1,000 documents for all indices", cases: of_shards(true) },
        Series { name: "clients, 1 document", cases: [100, 1_000, 10_000].map(clients).to_vec() },
        Series { name: "waiting requests for another node", cases: [1, 100, 10_000].map(beside).to_vec() },
    ]
}
