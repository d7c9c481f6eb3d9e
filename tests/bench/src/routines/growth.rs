use super::Cluster;

/// The requests of a measurement, and the cluster.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The value of the growing quantity.
    pub name: &'static str,
    pub cluster: Cluster,
    /// Whether one Envoy cluster has all nodes.
    pub one_cluster: bool,
    /// The number of simultaneous requests.
    pub requests: usize,
    /// The number of operations in each request.
    pub documents: usize,
    /// Whether documents go to all indices round robin, or all to the first.
    pub is_spread: bool,
    /// Whether each request has a different caller, so that each leaves by itself.
    pub own_callers: bool,
    /// The number of further requests, for a node that never answers.
    pub waiting: usize,
}

impl Case {
    /// Returns the number of operations of all requests.
    pub fn operations(&self) -> usize {
        self.requests.saturating_mul(self.documents)
    }
}

/// Cases that differ in one growing quantity.
#[derive(Debug, Clone, Copy)]
pub struct Series {
    /// The growing quantity, and the load.
    pub name: &'static str,
    /// The maximum cost of an operation, as a multiple of the cheapest smaller case.
    pub limit: f64,
    /// The cases, the smallest first.
    pub cases: [Case; 3],
}

/// Returns a case with one index of so many shards that each node has some.
const fn nodes(name: &'static str, nodes: usize, requests: usize, documents: usize) -> Case {
    let cluster = Cluster { nodes, indices: 1, shards: 300 };
    Case { name, cluster, one_cluster: false, requests, documents, is_spread: false, own_callers: false, waiting: 0 }
}

const fn in_one_cluster(case: Case) -> Case {
    Case { one_cluster: true, ..case }
}

const fn shards(name: &'static str, indices: usize, shards: usize, is_spread: bool) -> Case {
    let cluster = Cluster { nodes: 3, indices, shards };
    Case { cluster, documents: 1_000, is_spread, ..requests(name, 10, false) }
}

const fn requests(name: &'static str, requests: usize, own_callers: bool) -> Case {
    let cluster = Cluster::SMALL;
    Case { name, cluster, one_cluster: false, requests, documents: 1, is_spread: false, own_callers, waiting: 0 }
}

const fn beside(name: &'static str, waiting: usize) -> Case {
    Case { waiting, ..requests(name, 100, false) }
}

/// The quantities that must not increase the cost of an operation, or only slightly.
pub const SERIES: &[Series] = &[
    // There are 100 documents for each node and batch.
    Series {
        name: "nodes; requests of 1 document, 100 for each node",
        limit: 1.1,
        cases: [nodes("3", 3, 300, 1), nodes("30", 30, 3_000, 1), nodes("300", 300, 30_000, 1)],
    },
    Series {
        name: "nodes; one request with 100 documents for each node",
        limit: 1.1,
        cases: [nodes("3", 3, 1, 300), nodes("30", 30, 1, 3_000), nodes("300", 300, 1, 30_000)],
    },
    // More nodes split the same documents into more and smaller batches.
    Series {
        name: "nodes; the same 10,000 requests of 1 document",
        limit: 1.1,
        cases: [nodes("3", 3, 10_000, 1), nodes("30", 30, 10_000, 1), nodes("300", 300, 10_000, 1)],
    },
    // Shares also become more and smaller: with 300 nodes each request has 300 shares of three or four documents. The
    // cheaper a document, the more the cost of a share matters. These counts vary by 1 %, with the size of the
    // environment.
    Series {
        name: "nodes; the same 10 requests of 1,000 documents",
        limit: 1.53,
        cases: [nodes("3", 3, 10, 1_000), nodes("30", 30, 10, 1_000), nodes("300", 300, 10, 1_000)],
    },
    Series {
        name: "nodes in one Envoy cluster; the same 10,000 requests of 1 document",
        limit: 1.1,
        cases: [
            in_one_cluster(nodes("3", 3, 10_000, 1)),
            in_one_cluster(nodes("30", 30, 10_000, 1)),
            in_one_cluster(nodes("300", 300, 10_000, 1)),
        ],
    },
    Series {
        name: "nodes in one Envoy cluster; the same 10 requests of 1,000 documents",
        limit: 1.56,
        cases: [
            in_one_cluster(nodes("3", 3, 10, 1_000)),
            in_one_cluster(nodes("30", 30, 10, 1_000)),
            in_one_cluster(nodes("300", 300, 10, 1_000)),
        ],
    },
    Series {
        name: "shards; documents for one index",
        limit: 1.1,
        cases: [shards("6", 1, 6, false), shards("1,000", 100, 10, false), shards("100,000", 10_000, 10, false)],
    },
    Series {
        name: "shards; documents for all indices, round robin",
        limit: 1.1,
        cases: [shards("6", 6, 1, true), shards("1,000", 100, 10, true), shards("100,000", 10_000, 10, true)],
    },
    // A lone request reuses the memory that the allocator got back last.
    Series {
        name: "waiting requests of one caller",
        limit: 1.2,
        cases: [requests("1", 1, false), requests("100", 100, false), requests("10,000", 10_000, false)],
    },
    // From the first case on there are more callers than the engine's header cache holds.
    Series {
        name: "waiting requests, each of another caller",
        limit: 1.15,
        cases: [requests("100", 100, true), requests("1,000", 1_000, true), requests("10,000", 10_000, true)],
    },
    Series {
        name: "requests that wait for a node that hangs; documents for other nodes",
        limit: 1.1,
        cases: [beside("1", 1), beside("100", 100), beside("10,000", 10_000)],
    },
];
