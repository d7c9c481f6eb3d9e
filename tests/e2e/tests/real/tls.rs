//! `envoy/tls.yaml`, in front of nodes that require TLS and authentication.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use bulk_reshuffle_e2e::envoy_config::clusters;
use bulk_reshuffle_e2e::{
    Authority, GuardedNodes, Guests, Identity, Nodes, basic, bulk_request, replace_in_file, tls_options, yaml_of_page,
};
use bulk_reshuffle_stack::{Envoy, FilterConfig, Response, Tools};
use bytes::Bytes;
use hyper::Request;
use serde_json::{Value, json};

use crate::owned::{Owned, create_at_once, owners};
use crate::shared_scene::{self, SharedScene};

/// The users. The first one is the filter's in the file. The passwords are `change-me`, `wonderland` and
/// `can he fix it`.
const USERS: Guests = Guests::Users(
    "bulk-reshuffle:{SHA}6NSi9zGis3/LFpY50UzLk1CVLVk=\n\
     alice:{SHA}tiY7sUhYKUwI5L3866kDY+ENcrQ=\n\
     bob:{SHA}wJdWD20UxKNpJWKMdm6KjtNd480=\n",
);

const NO_STATE: &str = "requests_total.outcome.passed_through.reason.no_state";

/// The guarded cluster with the Envoy of the file in front of it.
struct TlsScene {
    shared: SharedScene,
    guarded: GuardedNodes,
    /// The authority that Envoy trusts.
    authority: Authority,
}

impl TlsScene {
    /// Starts a scene with the filter's configuration in the file.
    async fn start(name: &str) -> Self {
        Self::start_with(name, FilterConfig::Shipped, USERS, Authority::sign_nodes, |_| Ok(())).await
    }

    /// Starts a scene. `sign` issues the nodes' certificates; Envoy trusts its argument.
    async fn start_with(
        name: &str,
        filter: FilterConfig,
        guests: Guests,
        sign: impl FnOnce(&Authority) -> Result<Vec<Identity>>,
        edit: impl FnOnce(&mut Value) -> Result<()> + Send + 'static,
    ) -> Self {
        let authority = Authority::new().unwrap();
        let identities = sign(&authority).unwrap();
        let nodes = shared_scene::nodes(shared_scene::distribution()).await;
        let addresses: Vec<_> = nodes.iter().map(|(_, address)| *address).collect();
        let guarded = GuardedNodes::start(shared_scene::folder(name), &addresses, &identities, guests).await.unwrap();
        let envoy = envoy(name, filter, &authority, &guarded, edit).await;
        Self { shared: SharedScene::of(nodes, envoy), guarded, authority }
    }

    /// Sends a bulk request as this user.
    async fn bulk(&self, path: &str, authorization: Option<&str>, body: &str) -> Response {
        self.bulk_by(&self.shared.envoy, path, authorization, body).await
    }

    async fn bulk_by(&self, envoy: &Envoy, path: &str, authorization: Option<&str>, body: &str) -> Response {
        self.shared.client.send(request(envoy, path, authorization, body)).await.unwrap()
    }

    /// Checks that only TLS has crossed the wire.
    fn check_wire(&self) {
        const HANDSHAKE: [u8; 2] = [0x16, 3];
        for (node, wiretap) in self.guarded.wiretaps.iter().enumerate() {
            for heard in wiretap.heard().into_iter().filter(|heard| !heard.is_empty()) {
                assert_eq!(heard[..2], HANDSHAKE, "es-{node}");
                let text = String::from_utf8_lossy(&heard);
                for clear in ["HTTP/1.1", "authorization", "Basic ", "/_bulk", "\"_id\""] {
                    assert!(!text.contains(clear), "{clear} was sent to es-{node} in cleartext");
                }
            }
        }
    }

    async fn end(self) {
        self.check_wire();
        self.shared.end().await;
        self.guarded.end().await.unwrap();
    }
}

async fn envoy(
    name: &str,
    filter: FilterConfig,
    authority: &Authority,
    guarded: &GuardedNodes,
    edit: impl FnOnce(&mut Value) -> Result<()> + Send + 'static,
) -> Envoy {
    let nodes: Nodes =
        (0..).zip(guarded.addresses()).map(|(node, to): (usize, _)| (format!("es-{node}"), to)).collect();
    let options = tls_options(shared_scene::folder(name), filter, authority, &nodes, edit).unwrap();
    Envoy::start(&Tools::find().unwrap(), options).await.unwrap()
}

fn request(envoy: &Envoy, path: &str, authorization: Option<&str>, body: &str) -> Request<Bytes> {
    let authorization = authorization.map(|value| ("authorization", value));
    let headers: Vec<_> = [("host", "search.internal")].into_iter().chain(authorization).collect();
    bulk_request(&envoy.url(path), &headers, body.to_owned()).unwrap()
}

/// Returns status, headers and body, without headers that differ between any two answers.
fn comparable(answer: &Response) -> (u16, BTreeMap<String, Vec<String>>, String) {
    let mut headers = BTreeMap::<_, Vec<_>>::new();
    for (name, value) in &answer.headers {
        if !["date", "x-envoy-upstream-service-time"].contains(&name.as_str()) {
            headers.entry(name.to_string()).or_default().push(value.to_str().unwrap().to_owned());
        }
    }
    (answer.status.as_u16(), headers, answer.text())
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_requests_are_split_over_nodes_behind_tls_and_passwords() {
    let scene = TlsScene::start("tls").await;
    scene.shared.index("tls", json!({})).await;
    scene.guarded.admitted.forget();
    let alice = basic("alice", "wonderland");
    let documents = Owned::new("alice", 0..300);
    documents.check_created(&scene.bulk("/_bulk", Some(&alice), &documents.body("tls")).await);
    assert_eq!(scene.shared.documents("tls").await, 300);
    let batches = scene.guarded.admitted.bulks();
    assert_eq!(batches.iter().map(|batch| batch.node).collect::<BTreeSet<_>>(), [0, 1, 2].into());
    for batch in &batches {
        assert_eq!(owners(batch, "authorization"), (alice.clone(), ["alice".to_owned()].into()));
    }
    // The filter uses its own credentials.
    let asked = scene.guarded.admitted.wait_for_others("a query", |queries| !queries.is_empty()).await.unwrap();
    for query in asked {
        assert_eq!(query.header("authorization"), Some(basic("bulk-reshuffle", "change-me").as_str()));
    }
    assert!(scene.guarded.wiretaps.iter().all(|wiretap| !wiretap.heard().is_empty()));
    // Envoy only logs a warning for deprecated fields.
    assert!(!scene.shared.envoy.log().to_lowercase().contains("deprecated"));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_user_gets_the_nodes_own_answer() {
    let scene = TlsScene::start("tls-strangers").await;
    scene.shared.index("strangers", json!({})).await;
    scene.guarded.admitted.forget();
    let name = "tls-strangers-plain";
    let plain = envoy(name, FilterConfig::Removed, &scene.authority, &scene.guarded, |_| Ok(())).await;
    let body = Owned::new("alice", 0..100).body("strangers");
    for stranger in [None, Some(basic("alice", "looking-glass")), Some(basic("mallory", "wonderland"))] {
        let merged = scene.shared.merged().await;
        let answer = scene.bulk("/_bulk", stranger.as_deref(), &body).await;
        let direct = scene.bulk_by(&plain, "/_bulk", stranger.as_deref(), &body).await;
        assert_eq!(comparable(&answer), comparable(&direct));
        assert_eq!(answer.status, 401);
        assert_eq!(answer.headers["www-authenticate"], "Basic realm=\"http://search.internal/_bulk\"");
        let after = scene.shared.merged().await;
        assert_eq!(after, merged + 1, "the filter did not answer itself");
    }
    assert_eq!(scene.guarded.admitted.bulks().len(), 0);
    assert_eq!(scene.shared.documents("strangers").await, 0);
    plain.stop().await.unwrap();
    scene.end().await;
}

/// The page that describes how Envoy takes the filter's credentials from a secret.
const PAGE: &str = "filter/README.md";

/// Writes the secret of the page, with these credentials.
fn write_secret(file: &Path, authorization: &str) -> Result<()> {
    let mut secret = yaml_of_page(PAGE, "generic_secret")?;
    secret["resources"][0]["generic_secret"]["secret"]["inline_string"] = json!(authorization);
    std::fs::create_dir_all(file.parent().unwrap())?;
    std::fs::write(file, secret.to_string())?;
    Ok(())
}

/// Adds the upstream of the page for polls with credentials from a secret, in this file.
fn add_polled(config: &mut Value, file: &Path) -> Result<()> {
    let mut fields = yaml_of_page(PAGE, "credential_injector")?;
    let sds = fields
        .pointer_mut(
            "/typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions/http_filters/0\
             /typed_config/credential/typed_config/credential/sds_config/path_config_source",
        )
        .unwrap();
    *sds = json!({"path": file, "watched_directory": {"path": file.parent()}});
    let mut polled = clusters(config).iter().find(|cluster| cluster["name"] == "es").unwrap().clone();
    polled.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    polled["load_assignment"]["cluster_name"] = polled["name"].clone();
    clusters(config).push(polled);
    Ok(())
}

/// Checks that Envoy and the filter's status do not show these credentials.
async fn check_hidden(scene: &TlsScene, authorization: &str) {
    let secret = authorization.split(' ').nth(1).unwrap();
    for path in ["/config_dump?include_eds", "/stats"] {
        let shown = scene.shared.client.get(&scene.shared.envoy.admin_url(path)).await.unwrap().ok().unwrap();
        assert!(!shown.text().contains(secret), "{path} shows the credentials");
    }
    assert!(!scene.shared.envoy.log().contains(secret), "the log shows the credentials");
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_follow_a_secret_and_two_holders_of_api_keys_never_share_a_batch() {
    const REQUESTS: usize = 20;
    const KEYS: [&str; 3] = ["ApiKey ZmlsdGVyOnM=", "ApiKey YWxpY2U6czNjcmV0", "ApiKey Ym9iOnMzY3JldA=="];
    const OUTDATED: &str = "ApiKey b3V0ZGF0ZWQ=";
    let filter = FilterConfig::Value(json!({
        "coordinator": "es", "nodes": {"check": false}, "cluster_state": {"upstream": "es-state"},
        // Requests are held, so that they are merged.
        "hold": {"early_release": false, "interval": "500ms"},
    }));
    let file = shared_scene::folder("tls-keys").join("secret/state-user.yaml");
    write_secret(&file, OUTDATED).unwrap();
    let path = file.clone();
    let polled = move |config: &mut Value| add_polled(config, &path);
    let scene = TlsScene::start_with("tls-keys", filter, Guests::Keys(&KEYS), Authority::sign_nodes, polled).await;
    scene.shared.wait_for("bulk_reshuffle_state_errors_total", 1).await;
    assert_eq!(scene.shared.counted("state_loads_total").await, 0);
    replace_in_file(&file, OUTDATED, KEYS[0]).unwrap();
    scene.shared.index("keys", json!({})).await;
    let asked = scene.guarded.admitted.wait_for_others("a query", |queries| !queries.is_empty()).await.unwrap();
    assert!(asked.iter().all(|query| query.header("authorization") == Some(KEYS[0])));
    check_hidden(&scene, KEYS[0]).await;
    scene.guarded.admitted.forget();

    let requests = (0..REQUESTS).flat_map(|n| [(n, ("alice", KEYS[1])), (n, ("bob", KEYS[2]))]);
    create_at_once(requests.map(|(number, (owner, key))| {
        let documents = Owned::new(owner, number * 30..(number + 1) * 30);
        let request = request(&scene.shared.envoy, "/_bulk", Some(key), &documents.body("keys"));
        let client = scene.shared.client.clone();
        (documents, async move { client.send(request).await.unwrap() })
    }))
    .await;
    assert_eq!(scene.shared.documents("keys").await, 2 * 30 * REQUESTS as u64);
    let batches = scene.guarded.admitted.bulks();
    let told: BTreeSet<_> = batches.iter().map(|batch| owners(batch, "authorization")).collect();
    let only = |key: &str, owner: &str| (key.to_owned(), BTreeSet::from([owner.to_owned()]));
    assert_eq!(told, [only(KEYS[1], "alice"), only(KEYS[2], "bob")].into());
    // Each user's requests were merged.
    assert!(batches.len() < REQUESTS, "{} batches", batches.len());
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_wrong_credentials_for_the_state_requests_pass_through_and_credentials_are_not_logged() {
    let secret = basic("bulk-reshuffle", "not-the-p4ssword");
    let filter = json!({"coordinator": "es", "credentials": {"authorization": secret},
                        "cluster_state": {"refresh": "200ms"}});
    let (name, filter) = ("tls-wrong-credentials", FilterConfig::Value(filter));
    let scene = TlsScene::start_with(name, filter, USERS, Authority::sign_nodes, |_| Ok(())).await;
    let index = json!({"settings": {"number_of_shards": 6, "number_of_replicas": 0}});
    scene.shared.client.delete(&scene.shared.direct(0, "/unknown-state")).await.unwrap();
    scene.shared.put("/unknown-state", &index).await;
    scene.shared.wait_for("bulk_reshuffle_state_errors_total", 2).await;

    let alice = basic("alice", "wonderland");
    let passed = async || scene.shared.counted(NO_STATE).await;
    let before = passed().await;
    for number in 0..5 {
        let documents = Owned::new("alice", number * 20..(number + 1) * 20);
        documents.check_created(&scene.bulk("/_bulk", Some(&alice), &documents.body("unknown-state")).await);
    }
    assert_eq!(passed().await - before, 5);
    assert_eq!(scene.shared.documents("unknown-state").await, 100);
    assert_eq!(scene.shared.counted("state_loads_total").await, 0);
    let log = scene.shared.envoy.log();
    let warning = log.lines().find(|line| line.contains("[warning]") && line.contains("cluster state: "));
    assert!(warning.unwrap().contains("status 401"), "{warning:?}");
    for shown in [secret.as_str(), secret.split(' ').nth(1).unwrap(), "not-the-p4ssword"] {
        assert!(!log.contains(shown), "the log shows {shown}");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_certificates_of_another_authority_receive_no_request() {
    let by_stranger = |_: &Authority| Authority::new()?.sign_nodes();
    let scene = TlsScene::start_with("tls-wrong-ca", FilterConfig::Shipped, USERS, by_stranger, |_| Ok(())).await;
    let alice = basic("alice", "wonderland");
    let answer = scene.bulk("/_bulk", Some(&alice), &Owned::new("alice", 0..10).body("tls")).await;
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("reset reason: remote connection failure"), "{}", answer.text());
    assert!(scene.shared.counter("cluster.es.ssl.fail_verify_error").await > 0);
    scene.shared.wait_for("bulk_reshuffle_state_errors_total", 1).await;
    assert_eq!(scene.guarded.admitted.bulks().len() + scene.guarded.admitted.others().len(), 0);
    // Envoy has connected to them.
    assert!(scene.guarded.wiretaps.iter().any(|wiretap| !wiretap.heard().is_empty()));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_for_a_node_with_the_wrong_certificate_go_to_other_nodes() {
    // Signed by the right authority, for another node.
    let sign = |by: &Authority| {
        ["es-0", "es-9", "es-2"].map(|node| by.sign(&format!("{node}.internal"))).into_iter().collect()
    };
    let scene = TlsScene::start_with("tls-impostor", FilterConfig::Shipped, USERS, sign, |_| Ok(())).await;
    scene.shared.index("impostor", json!({})).await;
    scene.guarded.admitted.forget();
    let alice = basic("alice", "wonderland");
    let documents = Owned::new("alice", 0..300);
    documents.check_created(&scene.bulk("/_bulk", Some(&alice), &documents.body("impostor")).await);
    assert_eq!(scene.shared.documents("impostor").await, 300);
    assert_eq!(scene.guarded.admitted.bulks_at(1).len(), 0);
    assert!(scene.shared.by_upstream("batches_redirected").await["es-1"] > 0);
    scene.end().await;
}
