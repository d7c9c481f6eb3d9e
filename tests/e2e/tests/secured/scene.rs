use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use bulk_reshuffle_e2e::{
    Administrator, Nodes, SecuredCluster, TlsClient, block_of_page, bulk_request, lines, tls_options,
};
use bulk_reshuffle_stack::{Client, Envoy, FilterConfig, Response, Tools, folder_of_this_process, wait};
use bytes::Bytes;
use hyper::Request;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

/// A limit far above the duration of any step here, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The password of every user.
pub const PASSWORD: &str = "Looking-Gl4ss-Tw1st";

/// The cluster of this binary. It ends with the process.
static CLUSTER: OnceCell<SecuredCluster> = OnceCell::const_new();

/// The secured cluster with an Envoy for this test alone in front of it.
pub struct SecuredScene {
    pub administrator: Administrator,
    pub envoy: Envoy,
    nodes: Nodes,
    /// A client of Envoy.
    client: Client,
    /// A client of the nodes.
    direct: TlsClient,
    /// The user that may do everything with all indices.
    pub owner: String,
}

/// Returns the role on the page, which says that it was run.
pub fn role_of_page() -> Value {
    serde_json::from_str(&block_of_page("filter/README.md", "json", "cluster_permissions").unwrap()).unwrap()
}

impl SecuredScene {
    /// Starts a scene with these fields in the filter's configuration, and waits until requests are split. The filter's
    /// own user has the role on the page.
    pub async fn start(name: &str, config: Value) -> Self {
        let administrator = Self::administrator().await;
        administrator.role("state", &role_of_page()).await.unwrap();
        let state = administrator.user("state", PASSWORD, &["state"]).await.unwrap();
        let scene = Self::start_as(name, &state, config).await;
        scene.envoy.wait_for_state(LIMIT).await.unwrap();
        scene
    }

    /// Returns the administrator of the cluster.
    pub async fn administrator() -> Administrator {
        cluster().await.administrator().unwrap()
    }

    /// Starts a scene whose filter has these credentials.
    pub async fn start_as(name: &str, credentials: &str, config: Value) -> Self {
        let cluster = cluster().await;
        let administrator = cluster.administrator().unwrap();
        let everything = json!({"cluster_permissions": ["*"], "index_permissions": [
            {"index_patterns": ["*"], "allowed_actions": ["*"]},
        ]});
        administrator.role("owner", &everything).await.unwrap();
        let owner = administrator.user("owner", PASSWORD, &["owner"]).await.unwrap();
        let mut whole = json!({"coordinator": "es", "nodes": {"upstream": "{name}"},
            "credentials": {"authorization": credentials}, "cluster_state": {"refresh": "200ms"}});
        whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
        let nodes = cluster.nodes();
        let options = tls_options(folder(name), FilterConfig::Value(whole), &cluster.authority, &nodes, |_| Ok(()));
        let envoy = Envoy::start(&Tools::find().unwrap(), options.unwrap()).await.unwrap();
        let direct = cluster.client().unwrap();
        Self { administrator, envoy, nodes, client: Client::new(), direct, owner }
    }

    /// Ends the test. Checks that the VM has not been reloaded, and that Envoy's log has no password of a user.
    pub async fn end(self, users: &[&str]) {
        let log = self.envoy.log();
        assert_eq!(self.counter("wasm.bulk_reshuffle.vm_reload").await, 0, "the VM died:\n{log}");
        assert!(!log.contains("panicked") && !log.contains("[error][wasm]"), "{log}");
        for user in users {
            let encoded = user.split(' ').nth(1).unwrap();
            assert!(!log.contains(encoded) && !log.contains(PASSWORD), "the log shows the credentials {user}");
        }
        self.envoy.stop().await.unwrap();
    }

    /// Waits until operations on an index are split.
    pub async fn wait_for_routing(&self, index: &str) {
        let probe: String = (0..64).map(|n| lines::delete(index, &format!("probe-{n}"))).collect();
        wait::until(LIMIT, "the filter routes to the index", async || {
            let before = self.merged().await;
            self.bulk(&self.owner, probe.clone()).await;
            Ok((self.merged().await > before).then_some(()))
        })
        .await
        .unwrap();
    }

    /// Sends a bulk request through the filter.
    pub async fn bulk(&self, user: &str, body: impl Into<String>) -> Response {
        self.begin(user, body).await.unwrap()
    }

    /// Begins to send a bulk request through the filter.
    pub fn begin(&self, user: &str, body: impl Into<String>) -> JoinHandle<Response> {
        let request = bulk_request(&self.envoy.url("/_bulk"), &headers(user), body.into()).unwrap();
        let client = self.client.clone();
        tokio::spawn(async move { client.send(request).await.unwrap() })
    }

    /// Sends a bulk request to a node.
    pub async fn bulk_directly(&self, user: &str, body: impl Into<String>) -> Response {
        let url = format!("https://{}/_bulk", self.nodes[0].1);
        self.direct.send(bulk_request(&url, &headers(user), body.into()).unwrap()).await.unwrap()
    }

    /// Returns the JSON answer of Envoy to the owner.
    pub async fn get(&self, path: &str) -> Value {
        let request = Request::get(self.envoy.url(path)).header("authorization", &self.owner);
        self.client.send(request.body(Bytes::new()).unwrap()).await.unwrap().ok().unwrap().json().unwrap()
    }

    /// Returns how many documents an index has.
    pub async fn documents(&self, index: &str) -> u64 {
        self.administrator.get(&format!("/{index}/_refresh")).await.unwrap();
        self.administrator.get(&format!("/{index}/_count")).await.unwrap()["count"].as_u64().unwrap()
    }

    /// Returns the sum of the filter's counters whose names have this text.
    pub async fn counted(&self, name: &str) -> u64 {
        self.envoy.stats_with(&format!("bulk_reshuffle_{name}")).await.unwrap().values().sum()
    }

    /// Returns how many requests the filter has split.
    pub async fn merged(&self) -> u64 {
        self.counted("requests_total.outcome.merged").await
    }

    /// Waits until one of the filter's counters has reached a value.
    pub async fn wait_for(&self, counter: &str, value: u64) {
        let what = format!("{counter} is {value}");
        wait::until(LIMIT, &what, async || Ok((self.counted(counter).await >= value).then_some(()))).await.unwrap();
    }

    async fn counter(&self, name: &str) -> u64 {
        self.envoy.counter(name).await.unwrap()
    }
}

/// Creates an empty index of six shards, whose mapping no document changes.
pub async fn create_index(administrator: &Administrator, name: &str) {
    let index = json!({
        "settings": {"number_of_shards": 6, "number_of_replicas": 0},
        "mappings": {"properties": {"n": {"type": "integer"}, "text": {"type": "keyword"}}},
    });
    administrator.put(&format!("/{name}"), &index).await.unwrap();
}

fn headers(user: &str) -> [(&str, &str); 2] {
    [("host", "search.internal"), ("authorization", user)]
}

async fn cluster() -> &'static SecuredCluster {
    CLUSTER.get_or_init(async || SecuredCluster::start(folder("cluster")).await.unwrap()).await
}

/// Returns a folder of this run. Removes the folders of earlier runs.
fn folder(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let of_run = || folder_of_this_process(&PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("secured"));
    FOLDER.get_or_init(of_run).join(name)
}
