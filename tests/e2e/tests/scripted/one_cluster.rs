//! One Envoy cluster with all nodes, in which a header of each batch names the node: `envoy/one-cluster.yaml`.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::envoy_config::{clusters, discover_hosts, manager};
use bulk_reshuffle_e2e::{
    ClusterScript, HostFile, Http2Client, NameServer, RawClient, Reaction, Recorded, Scene, SceneOptions,
};
use bulk_reshuffle_stack::Network;
use hyper::Request;
use serde_json::{Value, json};

const HEADER: &str = "x-bulk-reshuffle-node";

fn one_cluster() -> SceneOptions {
    Scene::of(ClusterScript::three_nodes()).one_cluster()
}

/// Leaves it to the filter alone to take the header off.
fn by_the_filter_alone(config: &mut Value) -> Result<()> {
    let routes = manager(config)["route_config"].as_object_mut().context("no routes")?;
    routes.remove("request_headers_to_remove").context("the routes do not take the header off")?;
    Ok(())
}

/// Returns the addresses that a request names.
fn named(request: &Recorded) -> Vec<String> {
    request.headers.get_all(HEADER).iter().map(|value| value.to_str().unwrap_or_default().to_owned()).collect()
}

fn address(scene: &Scene, node: usize) -> Result<SocketAddr> {
    scene.cluster.addresses().nth(node).context("no such node")
}

/// Writes a book on each of three nodes, and checks that each has received its own, with its own address.
async fn check_split(scene: &Scene) -> Result<()> {
    check_split_to(scene, [0, 1, 2]).await
}

async fn check_split_to(scene: &Scene, nodes: [usize; 3]) -> Result<()> {
    scene.cluster.forget();
    let answer = scene.bulk("/_bulk", scene.cluster.write_books(0)).await?;
    scene.cluster.check_books(0, &answer)?;
    anyhow::ensure!(answer.headers.get(HEADER).is_none(), "a client sees a node's address: {:?}", answer.headers);
    for node in nodes {
        let batch = scene.cluster.only_bulk_at(node)?;
        assert_eq!(
            (batch.text(), named(&batch)),
            (scene.cluster.write_book(node, 0)?, vec![address(scene, node)?.to_string()])
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_node_gets_its_operations_and_metrics_tell_the_nodes_apart() -> Result<()> {
    let scene = one_cluster().start().await?;
    check_split(&scene).await?;
    for node in 0..3 {
        assert_eq!(scene.counted(&format!("batches_total.upstream.es-{node}")).await?, 1);
    }
    assert_eq!(scene.counted("batches_redirected_total").await?, 0);
    // What passes through whole goes to any node, and names none.
    let answer = scene.bulk("/_bulk?pipeline=p", scene.cluster.write_book(0, 0)?).await?;
    assert_eq!((answer.status.as_u16(), answer.headers.get(HEADER)), (200, None));
    assert_eq!(named(scene.cluster.bulks().last().context("no request")?), Vec::<String>::new());
    scene.finish().await
}

/// Envoy chooses the address from the header of each request, so that of a client must not arrive. Without that, the
/// first node would get all of them.
#[tokio::test(flavor = "multi_thread")]
async fn no_client_chooses_a_node() -> Result<()> {
    let scene = one_cluster().edit(by_the_filter_alone).start().await?;
    let first: &'static str = address(&scene, 0)?.to_string().leak();
    let requests = [("/_bulk", 3), ("/_bulk?pipeline=p", 1)];
    for (path, batches) in requests {
        let body = scene.cluster.write_books(0);
        let check = |how: &str| {
            let received = scene.cluster.bulks();
            assert_eq!(received.len(), batches, "{how} {path}");
            for batch in &received {
                let own = address(&scene, batch.node).unwrap().to_string();
                assert_eq!(named(batch), if batches == 3 { vec![own] } else { Vec::new() }, "{how} {path}");
            }
            scene.cluster.forget();
        };
        scene.cluster.forget();
        scene.bulk_with(path, &[(HEADER, first)], body.clone()).await?.ok()?;
        check("HTTP/1.1");
        for header in [
            format!("{HEADER}: {first}\r\n{HEADER}: {first}"),
            format!("X-Bulk-Reshuffle-NODE: {first}\r\nx-bulk-reshuffle-node:{first},{first}"),
            format!("{HEADER}:\r\n{HEADER}: \t{first}\t"),
        ] {
            let mut client = RawClient::connect(scene.envoy.addr()).await?;
            client.send_head(path, &format!("{header}\r\ncontent-length: {}", body.len())).await?;
            client.send(&body).await?;
            client.json().await?;
            check(&header);
        }
        let mut client = Http2Client::connect(scene.envoy.addr()).await?;
        client.headers = vec![(HEADER, first), (HEADER, first)];
        client.bulk(path, body.as_bytes(), body.len(), None).await?;
        check("HTTP/2");
    }
    // Nor does a request that is not a bulk request.
    for _ in 0..3 {
        let search = Request::get(scene.envoy.url("/_search")).header(HEADER, first).body(Vec::new().into())?;
        scene.client.send(search).await?.ok()?;
    }
    let searches: Vec<_> = scene.cluster.others().into_iter().filter(|other| other.path() == "/_search").collect();
    assert_eq!(searches.iter().flat_map(named).collect::<Vec<_>>(), Vec::<String>::new());
    assert!(searches.iter().any(|search| search.node != 0), "{searches:?}");
    scene.finish().await
}

/// The shipped routes take the header off too, in case a request does not pass through the filter.
#[tokio::test(flavor = "multi_thread")]
async fn no_client_chooses_a_node_without_the_filter() -> Result<()> {
    let scene = one_cluster()
        .edit(|config| {
            manager(config)["http_filters"].as_array_mut().context("no filters")?.remove(0);
            Ok(())
        })
        .start_cold()
        .await?;
    let first = address(&scene, 0)?.to_string();
    for _ in 0..3 {
        scene.bulk_with("/_bulk", &[(HEADER, &first)], scene.cluster.write_book(0, 0)?).await?.ok()?;
    }
    assert!(scene.cluster.bulks().iter().all(|request| named(request).is_empty()));
    assert!(scene.cluster.bulks().iter().any(|request| request.node != 0));
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_the_cluster_lacks_is_served_by_another_and_counted() -> Result<()> {
    let config = json!({"cluster_state": {"refresh": "1h"}, "admin_path": "/_bulk_reshuffle"});
    let scene = one_cluster().coordinators([0, 1]).config(config).start().await?;
    scene.wait_for_stat("wasmcustom.bulk_reshuffle_upstreams_faulty.upstream.es-2", |fault| fault == 1).await?;
    let find = |status: &Value| Some(status["nodes"][2]["check"]["result"] == "no_upstream");
    assert!(scene.wait_for_status("/_bulk_reshuffle", find).await?, "another node has answered");
    let answer = scene.bulk("/_bulk", scene.cluster.write_books(0)).await?;
    scene.cluster.check_books(0, &answer)?;
    assert_eq!(scene.counted("batches_redirected_total.upstream.es-2").await?, 1);
    assert_eq!(scene.counted("batches_redirected_total.upstream.es-1").await?, 0);
    scene.cluster.forget();
    let answer = scene.bulk("/_bulk", scene.cluster.write_books(1)).await?;
    scene.cluster.check_books(1, &answer)?;
    assert_eq!(scene.counted("operations_unrouted_total.reason.upstream").await?, 1);
    assert_eq!(scene.counted("batches_redirected_total.upstream.es-2").await?, 1);
    let explained = scene.bulk("/_bulk_reshuffle/explain", scene.cluster.write_book(2, 0)?).await?.ok()?.json()?;
    assert_eq!(
        (&explained["unrouted"][0]["reason"], &explained["unrouted"][0]["operations"]),
        (&json!("upstream"), &json!(1))
    );
    scene.finish().await
}

/// A policy without another node to fall back to: Envoy answers itself, and the filter asks the coordinator.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_without_a_fallback_makes_a_missing_node_an_upstream_without_hosts() -> Result<()> {
    let scene = one_cluster()
        .coordinators([0, 1])
        .config(json!({"nodes": {"upstream": "nodes"}, "cluster_state": {"refresh": "1h"}}))
        .edit(|config| {
            let mut nodes = clusters(config)[0].clone();
            nodes["name"] = json!("nodes");
            *nodes
                .pointer_mut("/load_balancing_policy/policies/0/typed_extension_config/typed_config/fallback_policy")
                .context("no fallback")? = serde_saphyr::from_str(NO_FALLBACK)?;
            clusters(config).push(nodes);
            Ok(())
        })
        .start()
        .await?;
    let answer = scene.bulk("/_bulk", scene.cluster.write_books(0)).await?;
    scene.cluster.check_books(0, &answer)?;
    let sent = |node: usize| scene.cluster.bulks_at(node).iter().map(named).collect::<Vec<_>>();
    assert!(
        sent(0).contains(&vec![address(&scene, 0)?.to_string()])
            && sent(1).contains(&vec![address(&scene, 1)?.to_string()])
    );
    assert_eq!(scene.counted("batches_redirected_total.upstream.es-2").await?, 1);
    scene.finish().await
}

const NO_FALLBACK: &str = r#"
policies:
  - typed_extension_config:
      name: envoy.load_balancing_policies.subset
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.subset.v3.Subset
        fallback_policy: NO_FALLBACK
        subset_selectors: [{keys: [none]}]
        subset_lb_policy:
          policies:
            - typed_extension_config:
                name: envoy.load_balancing_policies.round_robin
                typed_config: {"@type": type.googleapis.com/envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_for_any_address_needs_no_list_of_nodes() -> Result<()> {
    let nodes = json!({"upstream": "nodes", "only": ["127.0.0.1:*"]});
    let scene = one_cluster()
        .coordinators([0])
        .config(json!({"nodes": nodes}))
        .edit(|config| {
            clusters(config).push(json!({
                "name": "nodes",
                "type": "ORIGINAL_DST",
                "lb_policy": "CLUSTER_PROVIDED",
                "connect_timeout": "2s",
                "original_dst_lb_config": {"use_http_header": true, "http_header_name": HEADER},
            }));
            Ok(())
        })
        .start()
        .await?;
    check_split(&scene).await?;
    assert_eq!(scene.counted("batches_redirected_total").await?, 0);
    scene.finish().await
}

/// Otherwise health checks and outlier detection would send a node's batches to others.
#[tokio::test(flavor = "multi_thread")]
async fn envoy_sends_a_batch_to_its_node_whether_health_checks_fail_or_not() -> Result<()> {
    let scene = one_cluster()
        .edit(|config| {
            clusters(config)[0]["health_checks"] = json!([{
                "timeout": "1s", "interval": "0.1s", "no_traffic_interval": "0.1s", "unhealthy_threshold": 1,
                "healthy_threshold": 1, "http_health_check": {"path": "/_health"},
            }]);
            Ok(())
        })
        .start()
        .await?;
    scene.cluster.react_to_state_queries(|request| {
        (request.node == 2 && request.path() == "/_health").then(|| Reaction::refusal(503, "red", "not ready"))
    });
    scene.wait_for_stat("cluster.es.membership_healthy", |healthy| healthy == 2).await?;
    check_split(&scene).await?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_sends_a_batch_to_its_node_although_it_has_ejected_the_node_for_others() -> Result<()> {
    let scene = one_cluster()
        .edit(|config| {
            // By default Envoy ejects at most a tenth of the nodes: none of three.
            clusters(config)[0]["outlier_detection"] =
                json!({"consecutive_5xx": 1, "base_ejection_time": "3600s", "max_ejection_percent": 50});
            Ok(())
        })
        .start()
        .await?;
    scene.cluster.react_at(2, Reaction::refusal(500, "red", "not ready"));
    scene.bulk("/_bulk", scene.cluster.write_books(0)).await?;
    scene.wait_for_stat("cluster.es.outlier_detection.ejections_active", |ejected| ejected == 1).await?;
    let hosts = scene.client.get(&scene.envoy.admin_url("/clusters")).await?.text();
    let ejected = format!("es::{}::health_flags::/failed_outlier_check\n", address(&scene, 2)?);
    assert!(hosts.contains(&ejected), "{hosts}");
    scene.cluster.react(|_| Reaction::items());
    check_split(&scene).await?;
    scene.cluster.forget();
    for _ in 0..6 {
        scene.bulk("/_bulk?pipeline=p", scene.cluster.write_book(0, 0)?).await?.ok()?;
    }
    let others: BTreeSet<_> = scene.cluster.bulks().iter().map(|request| request.node).collect();
    assert_eq!(others, [0, 1].into(), "requests that name no node");
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_down_is_served_by_the_coordinator() -> Result<()> {
    let mut scene = one_cluster().start().await?;
    scene.take_down(2).await?;
    let answer = scene.bulk("/_bulk", scene.cluster.write_books(0)).await?;
    scene.cluster.check_books(0, &answer)?;
    let sent: Vec<_> = scene.cluster.bulks().iter().map(named).filter(Vec::is_empty).collect();
    assert_eq!(sent.len(), 1, "the coordinator gets it without the header");
    assert!(scene.counted("batches_redirected_total.upstream.es-2").await? >= 1);
    assert_eq!(scene.counted("batches_redirected_total.upstream.es-0").await?, 0);
    scene.finish().await
}

/// A circuit breaker counts the calls to all nodes together.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_node_can_use_up_the_circuit_breaker_of_all() -> Result<()> {
    let scene = one_cluster()
        .edit(|config| {
            clusters(config)[0]["circuit_breakers"] = json!({"thresholds": [{"max_requests": 1}]});
            Ok(())
        })
        .start()
        .await?;
    let gate = scene.cluster.hold_if(|request| request.node == 0);
    let slow = scene.begin_bulk("/_bulk", &[], scene.cluster.write_book(0, 0)?);
    scene.cluster.wait_for_bulks("the slow batch", |batches| batches.len() == 1).await?;
    let answer = scene.bulk("/_bulk", scene.cluster.write_book(1, 0)?).await?;
    assert_eq!((answer.status.as_u16(), answer.text().contains("no_upstream_exception")), (503, true));
    gate.open();
    slow.get().await?.ok()?;
    scene.finish().await
}

/// The port of all nodes whose addresses come from DNS.
const PORT: u16 = 9200;

/// Adds a node and removes another. Neither the filter's configuration nor Envoy's changes: Envoy learns its hosts from
/// these fields' source, which `set` changes.
async fn check_that_nodes_come_and_go(
    nodes: Vec<SocketAddr>,
    fields: Value,
    set: impl Fn(&[SocketAddr]) -> Result<()>,
) -> Result<()> {
    let scene =
        one_cluster().at(nodes.clone()).without_upstream(3).config(json!({"cluster_state": {"refresh": "100ms"}}));
    let edit = move |config: &mut Value| {
        discover_hosts(config, &fields);
        Ok(())
    };
    let mut scene = scene.edit(edit).start().await?;
    check_split(&scene).await?;

    set(&nodes)?;
    scene.wait_for_stat("cluster.es.membership_total", |hosts| hosts == 4).await?;
    scene.cluster.change(|script| {
        script.add_node();
        script.index_mut("books").unwrap().move_primary(2, Some(3));
    });
    scene.wait_for_states(2).await?;
    check_split_to(&scene, [0, 1, 3]).await?;

    set(&[nodes[0], nodes[1], nodes[3]])?;
    scene.wait_for_stat("cluster.es.membership_total", |hosts| hosts == 3).await?;
    scene.cluster.take_down(2).await?;
    check_split_to(&scene, [0, 1, 3]).await?;
    assert_eq!(scene.counted("batches_redirected_total").await?, 0);
    assert_eq!(scene.counted("operations_unrouted_total").await?, 0);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_follow_nodes_that_envoy_learns_by_eds() -> Result<()> {
    let (network, folder) = (Network::find()?, tempfile::tempdir()?);
    let nodes = network.servers(4, PORT)?;
    let file = HostFile::create(folder.path(), "es", &nodes[..3])?;
    check_that_nodes_come_and_go(nodes, file.fields(), |hosts| file.set(hosts)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_follow_nodes_that_envoy_learns_by_dns() -> Result<()> {
    let network = Network::find()?;
    let nodes = network.servers(4, PORT)?;
    let dns = NameServer::start(PORT, &nodes[..3]).await?;
    check_that_nodes_come_and_go(nodes, dns.fields("es", "nodes.test"), |hosts| dns.set(hosts)).await
}
