use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{FakeCluster, Reaction, check_filter, wait_for_state};
use bulk_reshuffle_stack::{
    Client, Cluster, ClusterOptions, Distribution, Envoy, EnvoyOptions, FilterConfig, Tools, wait,
};
use bytes::Bytes;
use hyper::{Method, Request};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::outcomes::Counted;
use crate::target::{Step, Target};

/// A limit far above the duration of any step. On a busy machine, rsyslog may find a node too slow. It then pauses for 30
/// seconds, and longer each time.
pub const LIMIT: Duration = Duration::from_secs(240);

const ADMIN: &str = "/_bulk_reshuffle";

/// Three nodes of a release, a relay to them, and Envoy with the filter in front of the relay.
pub struct Scene {
    pub client: Client,
    cluster: Cluster,
    relay: FakeCluster,
    envoy: Envoy,
    folder: TempDir,
}

/// The documents of a target: ids, routing values and sources.
pub type Documents = Vec<(String, Value, Value)>;

impl Scene {
    pub async fn start(release: Distribution) -> Result<Self> {
        let (tools, folder) = (Tools::find()?, tempfile::tempdir()?);
        let options = ClusterOptions { distribution: release, ..ClusterOptions::new(folder.path().join("nodes")) };
        let cluster = Cluster::start(&tools, options).await?;
        let addresses: Vec<_> = cluster.addresses().map(|(_, address)| address).collect();
        let relay = FakeCluster::in_front_of(&addresses).await?;
        answer_as_default_distribution(&relay, &cluster).await?;
        let mut options = EnvoyOptions::new(folder.path()).cluster("es", relay.addresses());
        for ((name, _), address) in cluster.addresses().zip(relay.addresses()) {
            options = options.cluster(name, [address]);
        }
        options.filter = FilterConfig::Merged(json!({"cluster_state": {"refresh": "1s"}, "admin_path": ADMIN}));
        let envoy = Envoy::start(&tools, options).await?;
        wait_for_state(&envoy, 1, LIMIT).await?;
        Ok(Self { client: Client::new(), cluster, relay, envoy, folder })
    }

    /// Returns the URL of the first node.
    pub fn direct(&self) -> Result<String> {
        let first = self.relay.addresses().next().context("no node")?;
        Ok(format!("http://{first}"))
    }

    /// Returns the URL of Envoy with the filter.
    pub fn filtered(&self) -> String {
        self.envoy.url("")
    }

    /// Returns the folder for the files of programs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sends a request that must succeed to a node.
    pub async fn take(&self, step: &Step) -> Result<()> {
        let request = Request::builder()
            .method(&step.method)
            .uri(format!("{}{}", self.cluster.base_url(0)?, step.path))
            .header("content-type", "application/json")
            .body(if step.body.is_null() { Bytes::new() } else { step.body.to_string().into() })?;
        self.client.send(request).await?.ok().with_context(|| step.path.clone()).map(|_| ())
    }

    /// Creates empty targets, and waits until the filter knows them.
    pub async fn create(&self, targets: &[Target]) -> Result<()> {
        self.delete(targets).await?;
        for target in targets {
            for step in &target.created {
                self.take(step).await?;
            }
        }
        self.cluster.wait_green(LIMIT).await?;
        let version = async |url: String, pointer: &str| -> Result<u64> {
            let answer = self.client.get_json(&url).await?;
            answer.pointer(pointer).and_then(Value::as_u64).context("no version")
        };
        let current = version(self.node("/_cluster/state/version")?, "/version").await?;
        wait::until(LIMIT, "the filter knows the cluster's state", async || {
            // The filter polls when requests arrive.
            self.client.post_ndjson(&self.envoy.url("/_bulk"), "\n").await?;
            let known = version(self.envoy.url(&format!("{ADMIN}/status")), "/state/version").await?;
            Ok((known >= current).then_some(()))
        })
        .await
    }

    /// Deletes the targets that are indices.
    pub async fn delete(&self, targets: &[Target]) -> Result<()> {
        for target in targets.iter().filter(|target| !target.is_stream) {
            self.client.delete(&self.node(&format!("/{}", target.name))?).await?;
        }
        Ok(())
    }

    /// Returns the name of the index that a target writes to.
    async fn index(&self, target: &Target) -> Result<String> {
        if !target.is_stream {
            return Ok(target.name.clone());
        }
        let path = "/_cluster/state/metadata?filter_path=metadata.data_stream";
        let state = self.client.get_json(&self.node(path)?).await?;
        let indices = &state["metadata"]["data_stream"]["data_stream"][target.name.as_str()]["indices"];
        let last = indices.as_array().and_then(|indices| indices.last()?["index_name"].as_str());
        Ok(last.context("there is no such data stream")?.to_owned())
    }

    /// Returns the documents of targets, in the order of their ids.
    pub async fn documents(&self, targets: &[Target]) -> Result<Documents> {
        let mut documents = Vec::new();
        for target in targets {
            let name = self.index(target).await?;
            self.client.get(&self.node(&format!("/{name}/_refresh"))?).await?.ok()?;
            let found = self.client.get_json(&self.node(&format!("/{name}/_search?size=10000"))?).await?;
            let hits = found["hits"]["hits"].as_array().context("no hits")?;
            let id = |hit: &Value| hit["_id"].as_str().unwrap_or_default().to_owned();
            documents.extend(hits.iter().map(|hit| (id(hit), hit["_routing"].clone(), hit["_source"].clone())));
        }
        documents.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(documents)
    }

    /// Returns the number of documents of targets.
    pub async fn count(&self, targets: &[Target]) -> Result<usize> {
        let mut count = 0;
        for target in targets {
            let name = self.index(target).await?;
            self.client.get(&self.node(&format!("/{name}/_refresh"))?).await?.ok()?;
            let found = self.client.get_json(&self.node(&format!("/{name}/_count"))?).await?;
            count += usize::try_from(found["count"].as_u64().context("no count")?)?;
        }
        Ok(count)
    }

    /// Returns the current values of the filter's counters.
    pub async fn counted(&self) -> Result<Counted> {
        let stats = self.envoy.stats_with("bulk_reshuffle_").await?;
        let prefix = "wasmcustom.bulk_reshuffle_";
        let grown = |name: &str| -> BTreeMap<String, u64> {
            let prefix = format!("{prefix}{name}");
            let named = stats.iter().filter_map(|(name, count)| Some((name.strip_prefix(&prefix)?.to_owned(), *count)));
            named.collect()
        };
        Ok(Counted {
            merged: grown("requests_total.outcome.merged").into_values().sum(),
            passed: grown("requests_total.outcome.passed_through.reason."),
            operations: grown("batch_operations_total.upstream."),
        })
    }

    /// Removes the recorded requests.
    pub fn forget(&self) {
        self.relay.forget();
    }

    /// Returns the first bulk request since then, for messages.
    pub fn first_request(&self) -> String {
        let first = self.relay.bulks().into_iter().find(|bulk| bulk.body.len() > 1);
        first.map_or_else(
            || "no bulk request arrived".to_owned(),
            |bulk| {
                let body = bulk.plain().unwrap_or_default();
                format!("POST {} {:.300}", bulk.target, String::from_utf8_lossy(&body))
            },
        )
    }

    /// Stops everything, and checks the filter's health.
    pub async fn stop(self) -> Result<()> {
        check_filter(&self.envoy).await?;
        self.envoy.stop().await?;
        self.cluster.stop().await
    }

    fn node(&self, path: &str) -> Result<String> {
        Ok(format!("{}{path}", self.cluster.base_url(0)?))
    }
}

/// Answers requests for the version, the licence, and templates that need missing field types, as the default
/// distribution does. Some distributions for tests have none of them. All other requests reach the nodes.
async fn answer_as_default_distribution(relay: &FakeCluster, nodes: &Cluster) -> Result<()> {
    let (client, addresses) = (Client::new(), nodes.addresses().map(|(_, address)| address).collect::<Vec<_>>());
    let license = json!({"license": {"status": "active", "uid": "e2e", "type": "basic", "mode": "basic"}}).to_string();
    let root = client.get(&nodes.base_url(0)?).await?;
    let info = client.get_json(&format!("{}/_nodes?filter_path=nodes.*.version", nodes.base_url(0)?)).await?;
    let node = info["nodes"].as_object().and_then(|nodes| nodes.values().next()).context("no node")?;
    let version = json!({"number": node["version"], "build_flavor": "default", "lucene_version": "10.0.0"});
    let root = (!root.status.is_success()).then(|| {
        let body = json!({
            "name": "es-0", "cluster_name": "bulk-reshuffle", "cluster_uuid": "e2e", "version": version,
            "tagline": "You Know, for Search",
        });
        let headers = [("content-type", "application/json"), ("x-elastic-product", "Elasticsearch")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Reaction::Status(200, headers, body.to_string().into())
    });
    relay.react_to_state_queries(move |request| {
        let address = *addresses.get(request.node)?;
        let forwarded = || Reaction::Forward(Box::new(client.clone()), address);
        Some(match (&request.method, request.path()) {
            (&Method::GET | &Method::HEAD, "/") => root.clone().unwrap_or_else(forwarded),
            // Zipkin asks whether the server upgrades the connection to HTTP/2. A node answers, and does not.
            (&Method::OPTIONS, "*") => Reaction::Status(200, Vec::new(), String::new().into()),
            (&Method::GET, "/_license") => Reaction::raw(license.clone()),
            (&Method::PUT, "/_index_template/filebeat-test") => {
                Reaction::raw(json!({"acknowledged": true}).to_string())
            }
            _ => forwarded(),
        })
    });
    Ok(())
}
