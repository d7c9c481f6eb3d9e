//! Routes and filters of the proxy that forbid or change requests that otherwise would be split.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::{ClusterScript, FakeCluster, Item, lines};
use serde_json::{Value, json};

use crate::bodies::MIB;
use crate::trial::{Cost, Plan, Trial};

/// Returns a body with one document on each node.
fn books(trial: &Trial) -> Result<String> {
    (0..3).map(|node| trial.scene.cluster.write_book(node, 1)).collect()
}

/// Sends books to a path whose route answers directly; returns the status and the header `location`.
async fn answered_by_route(trial: &Trial, path: &str) -> Result<(Cost, u16, Option<String>)> {
    let body = books(trial)?;
    let wire = body.len();
    let answer = trial.send(path, &[], body).await?;
    let status = answer.status.as_u16();
    let location = answer.headers.get("location").map(|value| value.to_str().map(str::to_owned)).transpose()?;
    let arrived = trial.arrived().len();
    ensure!(arrived == 0, "{status}, and {arrived} requests at the nodes");
    trial.wait_for_count("requests_total.outcome.passed_through.reason.route", 1).await?;
    Ok((Cost { wire, got: format!("{status}, {}", trial.way().await?) }, status, location))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_with_a_direct_response_of_403_applies() -> Result<()> {
    let plan = Plan::new("/secret/_bulk, whose route answers with 403");
    let plan = plan.routes(json!([{"match": {"prefix": "/secret/"}, "direct_response": {"status": 403}}]));
    plan.run(async |trial| {
        let (cost, status, _) = answered_by_route(trial, "/secret/_bulk").await?;
        ensure!(status == 403, "{status}");
        let large = trial.send("/secret/_bulk", &[], lines::large("books", "1", 8 * MIB)).await?;
        ensure!(large.status == 403, "{} for 8 MiB", large.status);
        Ok(cost)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_with_a_redirect_applies() -> Result<()> {
    let plan = Plan::new("/moved/_bulk, whose route redirects");
    let plan = plan.routes(json!([{"match": {"prefix": "/moved/"}, "redirect": {"path_redirect": "/elsewhere"}}]));
    plan.run(async |trial| {
        let (cost, status, location) = answered_by_route(trial, "/moved/_bulk").await?;
        ensure!(status == 301, "{status}");
        ensure!(location.as_deref().is_some_and(|to| to.ends_with("/elsewhere")), "{location:?}");
        Ok(cost)
    })
    .await
}

/// Adds an Envoy cluster with one endpoint.
fn add_cluster(config: &mut Value, name: &str, address: SocketAddr) -> Result<()> {
    let clusters = config.pointer_mut("/static_resources/clusters").and_then(Value::as_array_mut);
    let address = json!({"socket_address": {"address": address.ip(), "port_value": address.port()}});
    clusters.context("no clusters")?.push(json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "2s",
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    }));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_to_another_cluster_applies() -> Result<()> {
    let other = FakeCluster::start(ClusterScript::new(1)).await?;
    let address = other.addresses().next().context("no node")?;
    let plan = Plan::new("/other/_bulk, whose route leads to another cluster");
    let plan = plan.routes(json!([{"match": {"prefix": "/other/"}, "route": {"cluster": "other"}}]));
    let plan = plan.edit(move |config| add_cluster(config, "other", address));
    plan.run(async |trial| {
        let body = books(trial)?;
        let items = Item::read_all(&trial.send("/other/_bulk", &[], body.clone()).await?)?;
        ensure!(trial.arrived().is_empty(), "{} requests at the coordinator's nodes", trial.arrived().len());
        ensure!(other.only_bulk_at(0)?.body == body.as_bytes(), "the body was changed");
        Ok(Cost { wire: body.len(), got: format!("200, {} items, {}", items.len(), trial.way().await?) })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn rbac_before_the_filter_denies_both_split_and_unsplit_requests() -> Result<()> {
    let denied = json!({"header": {"name": "x-role", "string_match": {"exact": "reader"}}});
    let plan = Plan::new("bulk requests with a role that RBAC before the filter denies").filters(json!([{
        "name": "envoy.filters.http.rbac",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
            "rules": {"action": "DENY", "policies": {"readers": {"permissions": [{"any": true}], "principals": [denied]}}},
        },
    }]));
    plan.run(async |trial| {
        let body = books(trial)?;
        for path in ["/_bulk", "/_bulk?pipeline=p"] {
            let answer = trial.send(path, &[("x-role", "reader")], body.clone()).await?;
            ensure!(answer.status == 403, "{path}: {}", answer.status);
        }
        ensure!(trial.arrived().is_empty(), "{} requests at the nodes", trial.arrived().len());
        Ok(Cost { wire: 2 * body.len(), got: "403".into() })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_is_removed_before_the_filter_reaches_no_node() -> Result<()> {
    const HEADER: &str = "es-security-runas-user";
    let plan = Plan::new("a header that header_mutation before the filter removes").filters(json!([{
        "name": "envoy.filters.http.header_mutation",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
            "mutations": {"request_mutations": [{"remove": HEADER}]},
        },
    }]));
    plan.run(async |trial| {
        let body = books(trial)?;
        for path in ["/_bulk", "/_bulk?pipeline=p"] {
            trial.send(path, &[(HEADER, "admin")], body.clone()).await?.ok()?;
        }
        let arrived = trial.arrived();
        ensure!(arrived.len() == 4, "{} requests instead of three shares and a whole one", arrived.len());
        ensure!(arrived.iter().all(|batch| batch.header(HEADER).is_none()), "{HEADER} reached a node");
        Ok(Cost { wire: 2 * body.len(), got: format!("200, one split, {}", trial.way().await?) })
    })
    .await
}
