use std::net::SocketAddr;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{FakeCluster, Reaction};
use bulk_reshuffle_stack::Client;
use hyper::Method;
use serde_json::json;

/// Answers requests for the version, the licence, and Filebeat's template, which needs missing field types, as the
/// default distribution does. Some distributions for tests have none of them. All other requests reach the nodes.
pub async fn answer_as_default_distribution(relay: &FakeCluster, nodes: Vec<SocketAddr>) -> Result<()> {
    let (client, first) = (Client::new(), format!("http://{}", nodes.first().context("no node")?));
    let license = json!({"license": {"status": "active", "uid": "e2e", "type": "basic", "mode": "basic"}}).to_string();
    let root = client.get(&first).await?;
    let info = client.get_json(&format!("{first}/_nodes?filter_path=nodes.*.version")).await?;
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
        let address = *nodes.get(request.node)?;
        let forwarded = || Reaction::Forward(Box::new(client.clone()), address);
        Some(match (&request.method, request.path()) {
            (&Method::GET | &Method::HEAD, "/") => root.clone().unwrap_or_else(forwarded),
            // Zipkin asks whether the server upgrades the connection to HTTP/2. A node answers, and does not.
            (&Method::OPTIONS, "*") => Reaction::Status(200, Vec::new(), String::new().into()),
            (&Method::GET, "/_license") => Reaction::raw(license.clone()),
            (&Method::PUT, "/_index_template/filebeat-test" | "/_index_template/logs-filebeat") => {
                Reaction::raw(json!({"acknowledged": true}).to_string())
            }
            _ => forwarded(),
        })
    });
    Ok(())
}
