//! `envoy/gateway.yaml`: several tenants, and TLS on both sides.

use std::collections::BTreeSet;

use anyhow::Result;
use bulk_reshuffle_e2e::{Authority, GuardedNodes, Guests, TlsClient, bulk_request, gateway_files};
use bulk_reshuffle_stack::Response;
use bytes::Bytes;
use hyper::Request;
use serde_json::json;

use crate::owned::{Owned, create_at_once, owners};
use crate::shared_scene::{self, SharedScene};

/// The gateway of the file, in front of nodes that admit no other client.
struct GatewayScene {
    shared: SharedScene,
    guarded: GuardedNodes,
    servers: Authority,
    tenants: Authority,
}

impl GatewayScene {
    /// Starts a scene whose nodes offer HTTP/2 or not. Requests are held for a while, so that they are merged.
    async fn start(name: &str, http2: bool) -> Self {
        let (servers, tenants) = (Authority::new().unwrap(), Authority::new().unwrap());
        let nodes = shared_scene::nodes(shared_scene::distribution()).await;
        let addresses: Vec<_> = nodes.iter().map(|(_, address)| *address).collect();
        let identities = servers.sign_nodes().unwrap();
        let guests = Guests::Certified { authority: servers.certificate.clone(), http2 };
        let guarded = GuardedNodes::start(shared_scene::folder(name), &addresses, &identities, guests).await.unwrap();
        let files = gateway_files(&shared_scene::folder(name), &servers, &tenants, &guarded.addresses()).unwrap();
        let envoy = files.start("gateway.yaml").await.unwrap();
        Self { shared: SharedScene::of(nodes, envoy), guarded, servers, tenants }
    }

    /// Creates a client with a certificate of the tenant that this URI names.
    fn certified(&self, uri: &str) -> TlsClient {
        TlsClient::http2(&self.servers, Some(&self.tenants.sign_uri(uri).unwrap())).unwrap()
    }

    /// Creates a client without a certificate.
    fn stranger(&self) -> TlsClient {
        TlsClient::http1(&self.servers, None).unwrap()
    }

    fn bulk(&self, headers: &[(&str, &str)], body: String) -> Request<Bytes> {
        bulk_request(&format!("https://{}/_bulk", self.shared.envoy.addr()), headers, body).unwrap()
    }

    /// Creates an index, and waits until the filter routes to it.
    async fn index(&self, name: &str) {
        self.shared.create_index(name, json!({})).await;
        let client = self.stranger();
        let send = async |probe| {
            client.send(self.bulk(&[("x-api-key", "change-me-dave")], probe)).await.unwrap();
        };
        self.shared.wait_for_routing_of(name, send).await;
        self.guarded.admitted.forget();
    }

    async fn end(self) {
        self.shared.end().await;
        self.guarded.end().await.unwrap();
    }
}

/// Sends concurrent requests of five clients of three tenants. Each client forges another tenant's name.
async fn three_tenants_write(name: &str, http2: bool) {
    const REQUESTS: usize = 12;
    const ALICE: &str = "spiffe://tenants.internal/alice";
    let scene = GatewayScene::start(name, http2).await;
    scene.index(name).await;
    // A tenant has two certificates or keys while it rotates them.
    let clients = [
        ("alice", scene.certified(ALICE), [("x-tenant", "carol"), ("x-opaque-id", "same")]),
        ("alice", scene.certified(ALICE), [("x-tenant", "dave"), ("x-opaque-id", "same")]),
        ("carol", scene.stranger(), [("x-tenant", ALICE), ("x-api-key", "change-me-carol-1")]),
        ("carol", scene.stranger(), [("x-tenant", "dave"), ("x-api-key", "change-me-carol-2")]),
        ("dave", scene.stranger(), [("x-tenant", "carol"), ("x-api-key", "change-me-dave")]),
    ];
    create_at_once((0..).zip(&clients).flat_map(|(number, (owner, client, headers))| {
        let scene = &scene;
        (number * REQUESTS..(number + 1) * REQUESTS).map(move |request| {
            let documents = Owned::new(owner, request * 30..(request + 1) * 30);
            let (client, request) = (client.clone(), scene.bulk(headers, documents.body(name)));
            (documents, async move { client.send(request).await.unwrap() })
        })
    }))
    .await;

    let requests = clients.len() * REQUESTS;
    assert_eq!(scene.shared.documents(name).await, 30 * requests as u64);
    let batches = scene.guarded.admitted.bulks();
    let only = |tenant: &str, owner: &str| (tenant.to_owned(), BTreeSet::from([owner.to_owned()]));
    let told: BTreeSet<_> = batches.iter().map(|batch| owners(batch, "x-tenant")).collect();
    assert_eq!(told, [only(ALICE, "alice"), only("carol", "carol"), only("dave", "dave")].into());
    assert!(batches.iter().all(|batch| batch.header("x-api-key").is_none()), "a key was forwarded");
    for address in ["x-forwarded-for", "x-envoy-external-address"] {
        assert!(batches.iter().all(|batch| batch.header(address).is_none()), "a client's address was forwarded");
    }
    // Each tenant's requests were merged, whichever certificate or key they used.
    assert!(batches.len() < requests, "{} batches", batches.len());

    let connections = scene.shared.envoy.stats_with("cx_http[12]_total$").await.unwrap();
    for version in [1, 2] {
        assert!(connections[&format!("http.gateway.downstream_cx_http{version}_total")] > 0);
    }
    for node in 0..3 {
        let [with_http1, with_http2] =
            [1, 2].map(|n| connections[&format!("cluster.es-{node}.upstream_cx_http{n}_total")] > 0);
        assert_eq!((with_http1, with_http2), (!http2, http2), "es-{node}");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_never_share_a_batch_and_nodes_are_reached_by_http2_or_http1() {
    for (name, http2) in [("gateway-http2", true), ("gateway-http1", false)] {
        println!("{name}:");
        three_tenants_write(name, http2).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_are_not_tenants_are_rejected() {
    let scene = GatewayScene::start("gateway-strangers", true).await;
    scene.index("strangers").await;
    let body = || Owned::new("mallory", 0..30).body("strangers");
    for headers in [vec![], vec![("x-api-key", "change-me")], vec![("x-tenant", "dave")]] {
        let answer = scene.stranger().send(scene.bulk(&headers, body())).await.unwrap();
        assert_eq!(answer.status, 401, "{headers:?}");
    }
    // A certificate whose URI is not a tenant's.
    let answer = scene.certified("spiffe://cluster.internal/alice").send(scene.bulk(&[], body())).await.unwrap();
    assert_eq!(answer.status, 401);
    // A certificate of an unknown authority. A valid key does not make up for it.
    let elsewhere = Authority::new().unwrap().sign_uri("spiffe://tenants.internal/alice").unwrap();
    let client = TlsClient::http2(&scene.servers, Some(&elsewhere)).unwrap();
    let refused: Result<Response> = client.send(scene.bulk(&[("x-api-key", "change-me-dave")], body())).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(scene.guarded.admitted.bulks().len(), 0);
    assert_eq!(scene.shared.documents("strangers").await, 0);
    scene.end().await;
}
