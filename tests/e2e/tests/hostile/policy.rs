//! Routes and filters of the proxy that forbid or change requests that otherwise would be split.

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::envoy_config::{add_cluster, http_filters, routes};
use bulk_reshuffle_e2e::{ClusterScript, FakeCluster, Item, lines, yaml_of_page};
use hyper::Request;
use serde_json::{Value, json};

use crate::bodies::MIB;
use crate::trial::{Cost, Plan, Trial};

const ADMIN: &str = "/_bulk_reshuffle";
const REMOVED: &str = "es-security-runas-user";

/// A request that is split, and one that passes through.
const BOTH: [&str; 2] = ["/_bulk", "/_bulk?pipeline=p"];

fn odd_routes() -> [Value; 3] {
    [
        json!({"match": {"prefix": "/secret/"}, "direct_response": {"status": 403}}),
        json!({"match": {"prefix": "/moved/"}, "redirect": {"path_redirect": "/elsewhere"}}),
        json!({"match": {"prefix": "/other/"}, "route": {"cluster": "other"}}),
    ]
}

/// Returns filters that deny a role, remove a header, and close the admin path as documented.
fn filters() -> Result<Vec<Value>> {
    let page = yaml_of_page("envoy/operations.md", "envoy.filters.http.rbac")?.to_string();
    ensure!(page.contains("127.0.0.0"), "{page}");
    // The tests connect from 127.0.0.1, so the rule must permit another network.
    let page = page.replace("127.0.0.0", "203.0.113.0").replace("\"prefix_len\":8", "\"prefix_len\":24");
    let rules: Value = serde_json::from_str(&page)?;
    let denied = json!({"header": {"name": "x-role", "string_match": {"exact": "reader"}}});
    let policy = json!({"permissions": [{"any": true}], "principals": [denied]});
    let role = json!({"name": "role", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
        "rules": {"action": "DENY", "policies": {"readers": policy}},
    }});
    let removal = json!({"name": "envoy.filters.http.header_mutation", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
        "mutations": {"request_mutations": [{"remove": REMOVED}]},
    }});
    let mut filters = rules["http_filters"].as_array().context("no filters")?.clone();
    filters.extend([role, removal]);
    Ok(filters)
}

/// Sends requests that routes answer directly, or send to another cluster.
async fn routes_apply(trial: &Trial, other: &FakeCluster, body: &str) -> Result<()> {
    let answer = trial.send("/secret/_bulk", &[], body.to_owned()).await?;
    ensure!(answer.status == 403, "/secret/: {}", answer.status);
    let large = trial.send("/secret/_bulk", &[], lines::large("books", "1", 8 * MIB)).await?;
    ensure!(large.status == 403, "{} for 8 MiB", large.status);
    let answer = trial.send("/moved/_bulk", &[], body.to_owned()).await?;
    ensure!(answer.status == 301, "/moved/: {}", answer.status);
    let location = answer.headers["location"].to_str()?;
    ensure!(location.ends_with("/elsewhere"), "{location}");
    Item::read_all(&trial.send("/other/_bulk", &[], body.to_owned()).await?)?;
    ensure!(other.only_bulk_at(0)?.body == body, "the body was changed");
    trial.wait_for_count("requests_total.outcome.passed_through.reason.route", 4).await
}

/// Sends requests that filters reject.
async fn filters_reject(trial: &Trial, body: &str) -> Result<()> {
    for path in BOTH {
        let answer = trial.send(path, &[("x-role", "reader")], body.to_owned()).await?;
        ensure!(answer.status == 403, "{path} with a denied role: {}", answer.status);
    }
    for path in ["", "/", "/status", "/state", "/sample", "/explain"] {
        let request = Request::get(trial.scene.envoy.url(&format!("{ADMIN}{path}")));
        // A permitted address, which the rule must ignore.
        let request = request.header("x-forwarded-for", "203.0.113.7").body(Default::default())?;
        let answer = trial.scene.client.send(request).await?;
        ensure!(answer.status == 403, "{ADMIN}{path}: {}", answer.status);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_and_filters_before_the_filter_apply_to_requests_that_would_be_split() -> Result<()> {
    let other = FakeCluster::start(ClusterScript::new(1)).await?;
    let addresses: Vec<_> = other.addresses().collect();
    let plan = Plan::new("requests that routes, RBAC or header_mutation forbid, redirect or change")
        .config(json!({"admin_path": ADMIN}))
        .edit(move |config| {
            add_cluster(config, "other", &addresses);
            routes(config).splice(0..0, odd_routes());
            http_filters(config).splice(0..0, filters()?);
            Ok(())
        });
    plan.run(async |trial| {
        let body = trial.scene.cluster.write_books(1);
        routes_apply(trial, &other, &body).await?;
        filters_reject(trial, &body).await?;
        ensure!(trial.arrived().is_empty(), "{} requests at the nodes", trial.arrived().len());
        for path in BOTH {
            trial.send(path, &[(REMOVED, "admin")], body.clone()).await?.ok()?;
        }
        let arrived = trial.arrived();
        ensure!(arrived.len() == 4, "{} requests instead of three shares and a whole one", arrived.len());
        ensure!(arrived.iter().all(|batch| batch.header(REMOVED).is_none()), "{REMOVED} reached a node");
        Ok(Cost { wire: 7 * body.len() + 8 * MIB, got: format!("403, 301 or 200, {}", trial.way().await?) })
    })
    .await
}
