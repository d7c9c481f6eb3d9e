//! Envoy's routes and filters apply to requests that would be split, too.

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::envoy_config::{self, add_cluster, clusters, http_filters};
use bulk_reshuffle_e2e::{ClusterScript, FakeCluster, Index, Recorded, Scene, SceneOptions, lines};
use bulk_reshuffle_stack::{Client, Response};
use hyper::Request;
use serde_json::{Value, json};

/// The indices of the tests. Each has one shard on each of the three nodes.
const INDICES: [&str; 4] = ["books", "secret", "moved", "other"];

fn scene() -> SceneOptions {
    let script = INDICES.iter().fold(ClusterScript::new(3), |script, name| script.index(Index::new(name, [0, 1, 2])));
    Scene::of(script)
}

/// Returns an operation for each node, on one of these indices.
fn body(cluster: &FakeCluster, index: &str) -> String {
    (0..3).map(|node| lines::index(index, &cluster.book(node, 0).unwrap(), 1)).collect()
}

/// Inserts routes before those of the file.
fn add_routes(config: &mut Value, routes: Vec<Value>) -> Result<()> {
    envoy_config::routes(config).splice(0..0, routes);
    Ok(())
}

/// Inserts filters directly before bulk-reshuffle.
fn add_filters_before(config: &mut Value, filters: Vec<Value>) -> Result<()> {
    let found = http_filters(config);
    let place = found.iter().position(|filter| filter["name"] == "bulk_reshuffle").context("no bulk_reshuffle")?;
    found.splice(place..place, filters);
    Ok(())
}

/// Inserts a filter directly before the router, and so after bulk-reshuffle.
fn add_filter_after(config: &mut Value, filter: Value) -> Result<()> {
    let found = http_filters(config);
    found.insert(found.len() - 1, filter);
    Ok(())
}

fn route(prefix: &str, action: Value) -> Value {
    let mut route = json!({"match": {"prefix": prefix}});
    route.as_object_mut().unwrap().extend(action.as_object().unwrap().clone());
    route
}

/// Returns a header mutation that removes these headers.
fn removal(type_of: &str, names: &[&str]) -> Value {
    let removals: Vec<Value> = names.iter().map(|name| json!({"remove": name})).collect();
    let mutations = json!({"request_mutations": removals});
    json!({
        "@type": format!("type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.{type_of}"),
        "mutations": mutations,
    })
}

/// Starts a scene with another cluster than that of the filter, which routes may name `other`.
async fn with_other_cluster(
    options: SceneOptions,
    filters: Vec<Value>,
    routes: Vec<Value>,
) -> Result<(Scene, FakeCluster)> {
    let other = FakeCluster::start(ClusterScript::new(1)).await?;
    let addresses: Vec<_> = other.addresses().collect();
    let options = options.edit(move |config| {
        add_cluster(config, "other", &addresses);
        add_filters_before(config, filters)?;
        add_routes(config, routes)
    });
    Ok((options.start().await?, other))
}

/// Sends a request for an index. Returns whether it was split over the nodes. Otherwise it must not have reached any.
async fn is_split(scene: &Scene, index: &str, headers: &[(&str, &str)]) -> Result<(bool, Response)> {
    scene.cluster.forget();
    let answer = scene.bulk_with(&format!("/{index}/_bulk"), headers, body(&scene.cluster, index)).await?;
    let nodes = scene.cluster.bulks().len();
    assert!(matches!(nodes, 0 | 3), "{nodes} requests at the nodes");
    Ok((nodes == 3, answer))
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_with_a_direct_response_a_redirect_or_another_cluster_apply() -> Result<()> {
    let routes = vec![
        route("/secret/", json!({"direct_response": {"status": 403, "body": {"inline_string": "not you"}}})),
        route("/moved/", json!({"redirect": {"host_redirect": "elsewhere.test"}})),
        route("/other/", json!({"route": {"cluster": "other"}})),
    ];
    let (scene, other) = with_other_cluster(scene(), Vec::new(), routes).await?;
    let (split, answer) = is_split(&scene, "secret", &[]).await?;
    assert_eq!((split, answer.status.as_u16(), answer.body.as_ref()), (false, 403, b"not you".as_slice()));
    let (split, answer) = is_split(&scene, "moved", &[]).await?;
    assert_eq!((split, answer.status.as_u16()), (false, 301));
    assert!(answer.headers["location"].to_str()?.contains("elsewhere.test"), "{:?}", answer.headers);
    let (split, answer) = is_split(&scene, "other", &[]).await?;
    assert_eq!((split, answer.status.as_u16()), (false, 200));
    assert_eq!(other.only_bulk_at(0)?.text(), body(&scene.cluster, "other"));
    scene.wait_for_count("requests_total.outcome.passed_through.reason.route", 3).await?;

    // Requests on routes to this cluster are still split.
    let (split, answer) = is_split(&scene, "books", &[]).await?;
    assert_eq!((split, answer.status.as_u16()), (true, 200));
    assert_eq!(scene.passed_through().await?, [("route".to_owned(), 3)].into());
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_goes_to_its_own_choice_among_weighted_clusters() -> Result<()> {
    const REQUESTS: usize = 60;
    let weights = json!({"clusters": [{"name": "es", "weight": 50}, {"name": "other", "weight": 50}]});
    let routes = vec![route("/books/", json!({"route": {"weighted_clusters": weights}}))];
    let (scene, other) = with_other_cluster(scene(), Vec::new(), routes).await?;
    let mut split = 0;
    // All requests have the same headers, which the filter therefore has cached.
    for _ in 0..REQUESTS {
        let (is_split, answer) = is_split(&scene, "books", &[]).await?;
        assert_eq!(answer.status, 200);
        split += usize::from(is_split);
    }
    let elsewhere = other.bulks();
    assert_eq!(elsewhere.len(), REQUESTS - split);
    assert!(split > 0 && split < REQUESTS, "{split} of {REQUESTS}");
    assert!(elsewhere.iter().all(|request| request.text() == body(&scene.cluster, "books")));
    scene.wait_for_count("requests_total.outcome.passed_through.reason.route", elsewhere.len() as u64).await?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_goes_to_the_cluster_that_a_header_names() -> Result<()> {
    // The filter does not compare this header's values, so its cache of headers does not distinguish them.
    let config = json!({"harmless_headers": ["x-cluster", "x-request-id"]});
    let (scene, other) = with_other_cluster(scene().config(config), Vec::new(), vec![by_header()]).await?;
    for round in 0..10 {
        for (cluster, expected) in [("es", (true, 200)), ("other", (false, 200)), ("missing", (false, 503))] {
            let (split, answer) = is_split(&scene, "books", &[("x-cluster", cluster)]).await?;
            assert_eq!((split, answer.status.as_u16()), expected, "{cluster} in round {round}");
        }
    }
    assert_eq!(other.bulks().len(), 10);
    scene.finish().await
}

fn by_header() -> Value {
    route("/books/", json!({"route": {"cluster_header": "x-cluster"}}))
}

/// Returns a filter that makes Envoy choose the route again, by a header that it sets.
fn rerouting() -> Value {
    const SCRIPT: &str = r#"
        function envoy_on_request(handle)
          local to = handle:headers():get("x-send-to")
          if to then
            handle:headers():replace("x-cluster", to)
            handle:clearRouteCache()
          end
        end"#;
    json!({"name": "envoy.filters.http.lua", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
        "default_source_code": {"inline_string": SCRIPT},
    }})
}

/// Envoy chooses a route before the first filter. After a filter clears this choice, Envoy chooses again when the next
/// filter reads the route, and reports the first choice until then. A wasm filter cannot trigger the new choice.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_choice_of_route_applies_once_another_filter_has_read_it() -> Result<()> {
    let reading = json!({"name": "read", "typed_config": removal("HeaderMutation", &[])});
    for (filters, first_choice_counts) in [(vec![rerouting(), reading], false), (vec![rerouting()], true)] {
        let (scene, other) = with_other_cluster(scene(), filters, vec![by_header()]).await?;
        for (first, last) in [("es", "other"), ("missing", "es"), ("es", "missing"), ("es", "es")] {
            let headers = [("x-cluster", first), ("x-send-to", last)];
            scene.cluster.forget();
            scene.bulk_with("/books/_bulk", &headers, body(&scene.cluster, "books")).await?;
            let counts = if first_choice_counts { first } else { last };
            let at_nodes = scene.cluster.bulks().len();
            assert_eq!(at_nodes == 3, counts == "es", "from {first} to {last}: {at_nodes} requests at the nodes");
        }
        assert_eq!(other.bulks().len(), usize::from(!first_choice_counts));
        scene.finish().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_to_one_of_the_route_clusters_is_split() -> Result<()> {
    let routes = |config: &mut Value| {
        let mut copy = clusters(config)[0].clone();
        copy["name"] = json!("es-http");
        copy["load_assignment"]["cluster_name"] = json!("es-http");
        clusters(config).push(copy);
        add_routes(config, vec![route("/books/", json!({"route": {"cluster": "es-http"}}))])
    };
    let without = scene().edit(routes).start_cold().await?;
    let sent = body(&without.cluster, "books");
    for _ in 0..5 {
        let answer = without.bulk("/books/_bulk", sent.clone()).await?;
        assert_eq!(answer.status, 200);
    }
    assert!(without.cluster.bulks().iter().all(|request| request.text() == sent));
    without.wait_for_count("requests_total.outcome.passed_through.reason.route", 5).await?;
    let log = without.envoy.log();
    let told = log.matches("its route leads to the Envoy cluster \"es-http\"").count();
    assert_eq!(told, 1, "{log}");
    without.finish().await?;

    let with = scene().config(json!({"route_clusters": ["es-http"]})).edit(routes).start().await?;
    let (split, answer) = is_split(&with, "books", &[]).await?;
    assert_eq!((split, answer.status.as_u16()), (true, 200));
    assert!(!with.envoy.log().contains("its route leads to"));
    with.finish().await
}

/// Sends a request that is split, and one that passes through. Returns the requests that reach the nodes for each.
async fn split_and_whole(scene: &Scene, headers: &[(&str, &str)]) -> Result<(Vec<Recorded>, Vec<Recorded>)> {
    assert!(is_split(scene, "books", headers).await?.0);
    let split = scene.cluster.bulks();
    scene.cluster.forget();
    scene.bulk_with("/books/_bulk?pipeline=p", headers, body(&scene.cluster, "books")).await?;
    Ok((split, scene.cluster.bulks()))
}

type Edit = fn(&mut Value) -> Result<()>;

const RUN_AS: (&str, &str) = ("es-security-runas-user", "admin");

fn is_gone(requests: &[Recorded], header: &str) -> bool {
    assert!(!requests.is_empty());
    requests.iter().all(|request| request.header(header).is_none())
}

/// The router changes headers after all filters, so its changes apply only to requests that pass through. The filters
/// in this test change them for all requests.
#[tokio::test(flavor = "multi_thread")]
async fn headers_are_removed_for_all_requests_before_the_filter_or_in_the_upstreams() -> Result<()> {
    let by_route = |config: &mut Value| {
        let action = json!({"route": {"cluster": "es"}, "request_headers_to_remove": [RUN_AS.0]});
        add_routes(config, vec![route("/books/", action)])
    };
    let before = |config: &mut Value| {
        let nothing = json!({"name": "policy", "typed_config": removal("HeaderMutation", &[])});
        add_filters_before(config, vec![nothing])?;
        let of_route = json!({"policy": removal("HeaderMutationPerRoute", &[RUN_AS.0])});
        let action = json!({"route": {"cluster": "es"}, "typed_per_filter_config": of_route});
        add_routes(config, vec![route("/books/", action)])
    };
    let upstreams = |config: &mut Value| {
        for cluster in clusters(config) {
            let codec =
                json!({"@type": "type.googleapis.com/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec"});
            cluster["typed_extension_protocol_options"] = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http_protocol_options": {}},
                "http_filters": [
                    {"name": "policy", "typed_config": removal("HeaderMutation", &[RUN_AS.0, "x-envoy-internal"])},
                    {"name": "envoy.filters.http.upstream_codec", "typed_config": codec},
                ],
            }});
        }
        Ok(())
    };
    // Envoy marks batches as internal requests, unless an upstream removes the mark.
    let rows: [(&str, Edit, [bool; 3]); 3] = [
        ("by the route", by_route, [false, true, false]),
        ("before the filter", before, [true, true, false]),
        ("in the upstreams", upstreams, [true, true, true]),
    ];
    for (name, edit, are_gone) in rows {
        let scene = scene().edit(edit).start().await?;
        let (split, whole) = split_and_whole(&scene, &[RUN_AS]).await?;
        let found = [is_gone(&split, RUN_AS.0), is_gone(&whole, RUN_AS.0), is_gone(&split, "x-envoy-internal")];
        assert_eq!(found, are_gone, "{name}: contradicts the documentation");
        if are_gone[2] {
            assert!(is_gone(&whole, "x-envoy-internal"), "{name}");
        }
        scene.finish().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rbac_before_the_filter_denies_both_split_and_unsplit_requests() -> Result<()> {
    let rbac = json!({"name": "envoy.filters.http.rbac", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
        "rules": {"action": "DENY", "policies": {"guests": {
            "permissions": [{"any": true}],
            "principals": [{"header": {"name": "x-role", "string_match": {"exact": "guest"}}}],
        }}},
    }});
    let (before, after) = (rbac.clone(), rbac);
    let scene_after = scene().edit(move |config| add_filter_after(config, after)).start().await?;
    let (split, answer) = is_split(&scene_after, "books", &[("x-role", "guest")]).await?;
    assert_eq!((split, answer.status.as_u16()), (true, 200), "contradicts the documentation");
    scene_after.finish().await?;

    let scene = scene().edit(move |config| add_filters_before(config, vec![before])).start().await?;
    for (role, expected) in [("guest", (false, 403)), ("writer", (true, 200))] {
        let (split, answer) = is_split(&scene, "books", &[("x-role", role)]).await?;
        assert_eq!((split, answer.status.as_u16()), expected, "{role}");
    }
    scene.cluster.forget();
    let body = body(&scene.cluster, "books");
    let answer = scene.bulk_with("/books/_bulk?pipeline=p", &[("x-role", "guest")], body).await?;
    assert_eq!((answer.status.as_u16(), scene.cluster.bulks().len()), (403, 0));
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_path_does_not_depend_on_routes() -> Result<()> {
    let routes = |config: &mut Value| {
        add_routes(config, vec![route("/_bulk_reshuffle", json!({"direct_response": {"status": 403}}))])
    };
    let scene = scene().config(json!({"admin_path": "/_bulk_reshuffle"})).edit(routes).start().await?;
    let request = Request::get(scene.envoy.url("/_bulk_reshuffle/status")).body(bytes::Bytes::new())?;
    assert_eq!(Client::new().send(request).await?.status, 200);
    scene.finish().await
}
