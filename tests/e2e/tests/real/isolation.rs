//! Two search clusters behind one Envoy, with the same names of nodes and of an index.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::envoy_config::{http_filters, manager};
use bulk_reshuffle_e2e::{Item, Nodes, lines};
use bulk_reshuffle_stack::{Client, Counters, Envoy, EnvoyOptions, Tools, port, wait};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::shared_scene::{create_index, distribution, lend_alone, nodes, options};

const LIMIT: Duration = Duration::from_secs(60);

const ADMIN: &str = "/_bulk_reshuffle";
const INDEX: &str = "isolated";

/// The coordinator of the second cluster, named as in Istio's proxies.
const OTHER: &str = "outbound|9200||any.other.internal";

/// The name of the second cluster's filter beside the first one, and of its virtual host.
const OTHER_FILTER: &str = "bulk_reshuffle_other";
const OTHER_HOST: &str = "other.example";

/// The requests of each client, and the documents of each request.
const REQUESTS: u64 = 20;
const DOCUMENTS: u64 = 12;

/// How Envoy tells the requests for the two clusters apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By listeners, whose filters share a VM.
    OneVm,
    /// By listeners, whose filters have VMs of their own.
    TwoVms,
    /// By routes, behind both filters, of which each is disabled for the other's routes.
    Routes,
}

/// A search cluster as its clients reach it.
struct Side {
    coordinator: &'static str,
    /// The text before the nodes' names in those of their upstreams.
    prefix: &'static str,
    nodes: Nodes,
    client: Client,
    url: String,
    clients: u64,
    /// The number in the first document. Ids are the same in both clusters.
    first: u64,
    /// The version and the status of each document after the clients have written it.
    version: u64,
    status: u64,
    memory: u64,
}

impl Side {
    /// Returns the URL of a node.
    fn direct(&self, path: &str) -> String {
        format!("http://{}{path}", self.nodes[0].1)
    }

    async fn counters(&self, envoy: &Envoy) -> Counters {
        Counters::read_of(envoy, self.coordinator).await.unwrap()
    }

    /// Creates the index with this number of shards, and waits until the filter routes to it.
    async fn create_index(&self, envoy: &Envoy, shards: u64) {
        create_index(&self.client, &self.direct(""), INDEX, json!({"number_of_shards": shards})).await;
        let probe: String = (0..64).map(|n| lines::delete(INDEX, &format!("probe-{n}"))).collect();
        wait::until(LIMIT, "the filter routes to the index", async || {
            let before = self.counters(envoy).await;
            self.client.post_ndjson(&format!("{}/_bulk", self.url), probe.clone()).await?;
            Ok((self.counters(envoy).await.merged() > before.merged()).then_some(()))
        })
        .await
        .unwrap();
    }

    /// Starts clients that write all documents, and check that each answer is this cluster's.
    fn write(&self, writers: &mut JoinSet<()>) {
        for client in 0..self.clients {
            let (http, url, first, status) =
                (self.client.clone(), format!("{}/_bulk", self.url), self.first, self.status);
            writers.spawn(async move {
                for request in 0..REQUESTS {
                    let begin = (client * REQUESTS + request) * DOCUMENTS;
                    let ids = begin..begin + DOCUMENTS;
                    let body: String = ids.clone().map(|id| lines::index(INDEX, &id.to_string(), first + id)).collect();
                    let answer = http.post_ndjson(&url, body).await.unwrap();
                    let items = Item::read_all(&answer).unwrap().into_iter().map(|item| (item.id, item.status));
                    let expected: Vec<_> = ids.map(|id| (id.to_string(), status)).collect();
                    assert_eq!(items.collect::<Vec<_>>(), expected, "{}", answer.text());
                }
            });
        }
    }

    fn documents(&self) -> u64 {
        self.clients * REQUESTS * DOCUMENTS
    }

    /// Checks that the cluster has exactly the documents that its own clients have written.
    async fn check_documents(&self) {
        self.client.get(&self.direct(&format!("/{INDEX}/_refresh"))).await.unwrap().ok().unwrap();
        let found = self.direct(&format!("/{INDEX}/_search?size=10000&version=true"));
        let found = self.client.get_json(&found).await.unwrap();
        let document = |hit: &Value| {
            let id: u64 = hit["_id"].as_str().unwrap().parse().unwrap();
            (id, (hit["_source"]["n"].as_u64().unwrap(), hit["_version"].as_u64().unwrap()))
        };
        let found: BTreeMap<_, _> = found["hits"]["hits"].as_array().unwrap().iter().map(document).collect();
        let expected: BTreeMap<_, _> = (0..self.documents()).map(|id| (id, (self.first + id, self.version))).collect();
        assert!(found == expected, "{}: other documents than its clients have written", self.coordinator);
    }

    /// Checks that the metrics have grown by this cluster's requests only, which were merged.
    fn check_metrics(&self, grown: &Counters, now: &Counters) {
        assert_eq!((grown.merged(), grown.passed_through()), (self.clients * REQUESTS, BTreeMap::new()));
        let upstreams = self.nodes.iter().map(|(name, _)| format!("{}{name}", self.prefix));
        let of_nodes = upstreams.map(|upstream| grown.get(&format!("batch_operations_total.upstream.{upstream}")));
        let of_nodes: Vec<u64> = of_nodes.collect();
        assert!(of_nodes.iter().all(|operations| *operations > 0), "{of_nodes:?}");
        assert_eq!(of_nodes.iter().sum::<u64>(), self.documents());
        assert_eq!(grown.sum("batch_operations_total"), self.documents());
        let (requests, batches) = (grown.sum("batch_requests_total"), grown.sum("batches_total"));
        assert!(requests > batches, "{requests} requests in {batches} batches");
        assert_eq!(now.get("memory_limit_bytes"), self.memory);
        assert_eq!(now.get("memory_bytes"), 0);
    }

    /// Checks that the status has this cluster's nodes, and the totals of its own filter.
    async fn check_status(&self, now: &Counters) {
        let known = self.client.get_json(&self.direct("/_nodes?filter_path=nodes.*.name")).await.unwrap();
        let known = known["nodes"].as_object().unwrap().iter().map(|(id, node)| {
            let name = node["name"].as_str().unwrap();
            [id.clone(), name.to_owned(), format!("{}{name}", self.prefix), "right".to_owned()]
        });
        let told = wait::until(LIMIT, "the status says where the upstreams lead", async || {
            let told = self.client.get(&format!("{}{ADMIN}/status", self.url)).await?.ok()?.json()?;
            let nodes = told["nodes"].as_array().context("no nodes")?;
            Ok(nodes.iter().all(|node| node.get("check").is_some_and(Value::is_object)).then_some(told))
        });
        let told = told.await.unwrap();
        let nodes = told["nodes"].as_array().unwrap().iter().map(|node| {
            ["/id", "/name", "/upstream", "/check/result"]
                .map(|field| node.pointer(field).unwrap().as_str().unwrap().to_owned())
        });
        assert_eq!(nodes.collect::<BTreeSet<_>>(), known.collect());
        assert_eq!(told["configuration"]["coordinator"], self.coordinator);
        let totals = ["requests_merged", "operations", "memory_limit_bytes"].map(|total| &told["totals"][total]);
        assert_eq!(totals, [now.merged(), now.get("operations_total"), self.memory].map(Value::from).each_ref());
    }
}

/// Returns the second cluster's filter, by the first one's.
fn other_filter(first: &Value, way: Way) -> Value {
    let mut filter = first.clone();
    let plugin = &mut filter["typed_config"]["config"];
    let config = json!({
        "coordinator": OTHER, "nodes": {"upstream": "other-{name}"}, "admin_path": ADMIN, "limits": {"memory": "160mb"},
    });
    plugin["configuration"]["value"] = config.to_string().into();
    match way {
        Way::OneVm => {}
        Way::TwoVms => plugin["vm_config"]["vm_id"] = json!("other"),
        Way::Routes => plugin["root_id"] = json!("other"),
    }
    filter
}

/// Adds the second cluster's filter, with a listener of its own or with routes.
fn add_other(config: &mut Value, way: Way, port: u16) -> Result<()> {
    let to_other = |value: &Value| -> Result<Value> {
        Ok(serde_json::from_str(&value.to_string().replace(r#""cluster":"es""#, &format!(r#""cluster":"{OTHER}""#)))?)
    };
    let place = http_filters(config).iter().position(|filter| filter["name"] == "bulk_reshuffle");
    let place = place.context("no filter")?;
    let mut filter = other_filter(&http_filters(config)[place], way);
    if way == Way::Routes {
        filter["name"] = json!(OTHER_FILTER);
        http_filters(config).insert(place + 1, filter);
        let hosts = manager(config)["route_config"]["virtual_hosts"].as_array_mut().context("no virtual hosts")?;
        let other = to_other(&hosts[0])?.to_string().replace(r#""bulk_reshuffle""#, &format!(r#""{OTHER_FILTER}""#));
        hosts.push(serde_json::from_str(&other)?);
        let disabled = json!({"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": true});
        hosts[0]["typed_per_filter_config"] = json!({OTHER_FILTER: disabled});
        hosts[1]["typed_per_filter_config"] = json!({"bulk_reshuffle": disabled});
        (hosts[1]["name"], hosts[1]["domains"]) = (json!("other"), json!([OTHER_HOST]));
        return Ok(());
    }
    let listeners = config["static_resources"]["listeners"].as_array_mut().context("no listeners")?;
    let mut listener = to_other(&listeners[0])?;
    listener["name"] = json!("other");
    listener["address"]["socket_address"]["port_value"] = json!(port);
    let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
    manager["stat_prefix"] = json!("other");
    manager["http_filters"][place] = filter;
    listeners.push(listener);
    Ok(())
}

/// Starts the shipped Envoy with one worker, a filter for each cluster, and Envoy clusters for both.
async fn start(way: Way, first: &Nodes, other: &Nodes, port: u16) -> Envoy {
    let options = options("isolation", first, json!({"admin_path": ADMIN, "limits": {"memory": "192mb"}}));
    let options = options.cluster(OTHER, other.iter().map(|(_, address)| *address));
    let add =
        |options: EnvoyOptions, (name, address): &(String, _)| options.cluster(&format!("other-{name}"), [*address]);
    let mut options = other.iter().fold(options, add).edit(move |config| add_other(config, way, port));
    // A worker that starts with both filters configures one after the other, as operators' Envoys do.
    options.is_shared &= way != Way::OneVm;
    Envoy::start(&Tools::find().unwrap(), options).await.unwrap()
}

/// Writes to both clusters at the same time, and checks that nothing of one is in the other.
async fn check(way: Way, first: &Nodes, other: &Nodes) {
    let port = port::free().unwrap();
    let envoy = start(way, first, other, port).await;
    let (client, url) = (Client::new(), envoy.url(""));
    let first = Side {
        coordinator: "es",
        prefix: "",
        nodes: first.clone(),
        client: client.clone(),
        url: url.clone(),
        clients: 8,
        first: 0,
        version: 1,
        status: 201,
        memory: 192 << 20,
    };
    let (client, url) = match way {
        Way::Routes => (client.asking_for(OTHER_HOST), url),
        _ => (client, format!("http://{}", port::loopback(port))),
    };
    let other = Side {
        coordinator: OTHER,
        prefix: "other-",
        nodes: other.clone(),
        client,
        url,
        clients: 6,
        first: 1_000_000,
        version: 2,
        status: 200,
        memory: 160 << 20,
    };
    tokio::join!(first.create_index(&envoy, 6), other.create_index(&envoy, 5));
    // The second cluster has all documents already, so its answers have another status.
    let all = lines::documents(INDEX, 0..other.documents() as usize);
    other.client.post_ndjson(&other.direct("/_bulk"), all).await.unwrap().ok().unwrap();

    let sides = [&first, &other];
    let before = [first.counters(&envoy).await, other.counters(&envoy).await];
    let mut writers = JoinSet::new();
    sides.iter().for_each(|side| side.write(&mut writers));
    writers.join_all().await;
    for (side, before) in sides.iter().zip(&before) {
        side.check_documents().await;
        let expected = before.merged() + side.clients * REQUESTS;
        // The counters of a busy worker are a little old.
        let now = wait::until(LIMIT, "all requests are counted", async || {
            let now = side.counters(&envoy).await;
            Ok((now.merged() >= expected && now.get("memory_bytes") == 0).then_some(now))
        });
        let now = now.await.unwrap();
        side.check_metrics(&now.since(before), &now);
        side.check_status(&now).await;
        let text = side.client.get(&envoy.admin_url("/stats/prometheus")).await.unwrap().text();
        let line = format!(
            r#"bulk_reshuffle_requests_total{{outcome="merged",coordinator="{}"}} {}"#,
            side.coordinator,
            now.merged()
        );
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
        let log = envoy.log();
        let announced = format!(r#"configuration: {{"coordinator":"{}""#, side.coordinator);
        assert_eq!(log.matches(&announced).count(), 1, "not one line with {announced} in\n{log}");
    }
    let log = envoy.log();
    assert!(!log.contains("panicked") && !log.contains("[error][wasm]"), "{log}");
    envoy.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_search_clusters_with_equal_names_behind_one_envoy_have_nothing_in_common() {
    let (first, other) = tokio::join!(nodes(distribution()), lend_alone());
    for way in [Way::OneVm, Way::TwoVms, Way::Routes] {
        check(way, &first, &other.nodes()).await;
    }
    other.give_back().await.unwrap();
}
