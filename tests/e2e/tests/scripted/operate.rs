//! Operators' interfaces: metrics with labels, the admin path, the access log, and the first line of the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle::engine::metrics::{Families, Family, Kind, Label};
use bulk_reshuffle_e2e::envoy_config::{http_filters, manager};
use bulk_reshuffle_e2e::{ClusterScript, Reaction, Scene, SceneOptions, yaml_of_page};
use bulk_reshuffle_stack::{Client, wait};
use hyper::Request;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(15);

const ADMIN: &str = "/_bulk_reshuffle";

fn scene(config: Value) -> SceneOptions {
    Scene::of(ClusterScript::three_nodes()).config(config)
}

#[derive(Debug)]
struct Series {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Returns the filter's series as Prometheus scrapes them.
async fn scrape(scene: &Scene) -> Result<Vec<Series>> {
    let text = scene.client.get(&scene.envoy.admin_url("/stats/prometheus")).await?.text();
    let series = text.lines().filter(|line| line.starts_with("bulk_reshuffle_")).map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty()).map(|label| {
            let (name, value) = label.split_once('=').unwrap();
            (name.to_owned(), value.trim_matches('"').to_owned())
        });
        Series { name: name.to_owned(), labels: labels.collect(), value: value.parse().unwrap() }
    });
    Ok(series.collect())
}

async fn status(scene: &Scene) -> Result<Value> {
    scene.client.get(&scene.envoy.url(&format!("{ADMIN}/status"))).await?.ok()?.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_gets_exactly_the_documented_metrics_whatever_clients_send() -> Result<()> {
    let scene = scene(json!({"admin_path": ADMIN})).workers(2).start().await?;
    // One refusal, so that a batch is retried.
    let refused = AtomicBool::new(false);
    scene.cluster.react(move |request| match request.node == 0 && !refused.swap(true, Ordering::Relaxed) {
        true => Reaction::refusal(429, "es_rejected_execution_exception", "too much"),
        false => Reaction::items(),
    });
    for number in 0..30 {
        scene.bulk("/_bulk", scene.cluster.write_books(number)).await?.ok()?;
        // Text from a client must not become a label.
        let odd = [("x-odd", format!("{number}")), ("authorization", format!("Basic {number}"))];
        let odd: Vec<_> = odd.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let line = scene.cluster.write_book(0, number)?;
        for path in [format!("/i{number}/_bulk?unheard{number}"), format!("/i{number}/_bulk?pipeline=p{number}")] {
            scene.bulk_with(&path, &odd, line.clone()).await?;
        }
        scene.bulk_with("/_bulk", &odd, line).await?.ok()?;
    }
    // The status page reads every metric.
    status(&scene).await?;

    // Envoy merges the workers' histograms every five seconds.
    let series = wait::until(LIMIT, "the histograms have all batches", async || {
        let series = scrape(&scene).await?;
        let sum = |name: &str| series.iter().filter(|one| one.name == name).map(|one| one.value).sum::<f64>();
        let is_all = sum("bulk_reshuffle_batch_requests_count") == sum("bulk_reshuffle_batches_total");
        Ok(is_all.then_some(series))
    })
    .await?;
    let mut families: BTreeSet<&str> = BTreeSet::new();
    for Series { name, labels, .. } in &series {
        let plain = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let is = |family: &&Family| match family.kind {
            Kind::Histogram => family.name == plain,
            _ => family.name == name,
        };
        let family = Families::all().find(is).unwrap_or_else(|| panic!("{name} is not in the table of metrics"));
        families.insert(family.name);
        let known: Vec<&str> = family.labels.iter().map(|label| label.name()).chain(["le"]).collect();
        assert!(labels.keys().all(|label| known.contains(&label.as_str())), "{name} has {labels:?}");
        // The shared Envoy keeps the module in a filter whose coordinator is called `none`.
        let upstreams = match labels["coordinator"].as_str() {
            "es" => &["es", "es-0", "es-1", "es-2"][..],
            coordinator => &["none"][..usize::from(coordinator == "none")],
        };
        let is_one = |label: &String| upstreams.contains(&label.as_str());
        assert!(!upstreams.is_empty() && labels.get("upstream").is_none_or(is_one), "{name} has {labels:?}");
        assert_eq!(labels.contains_key("upstream"), family.labels.contains(&Label::Upstream), "{name} has {labels:?}");
    }
    let all: BTreeSet<&str> = Families::all().map(|family| family.name).collect();
    assert_eq!(families, all);
    assert!(series.len() < 500, "{} series", series.len());

    let value = |name: &str, wanted: &[(&str, &str)]| {
        let fits = |series: &&Series| {
            wanted.iter().all(|(label, value)| series.labels.get(*label).is_some_and(|found| found == value))
        };
        series.iter().filter(|series| series.name == name).filter(fits).map(|series| series.value).sum::<f64>()
    };
    let requests = |labels: &[(&str, &str)]| value("bulk_reshuffle_requests_total", labels);
    assert_eq!(requests(&[("outcome", "merged")]), 60.0);
    assert_eq!(requests(&[("outcome", "passed_through"), ("reason", "parameter")]), 30.0);
    assert_eq!(requests(&[("outcome", "passed_through"), ("reason", "pipeline")]), 30.0);
    assert_eq!(value("bulk_reshuffle_batches_retried_total", &[("reason", "busy"), ("upstream", "es-0")]), 1.0);
    assert_eq!(value("bulk_reshuffle_batch_operations_total", &[("upstream", "es-1")]), 30.0);
    // One more for the retry.
    assert_eq!(value("bulk_reshuffle_batch_operations_total", &[("upstream", "es-0")]), 61.0);
    let batches = value("bulk_reshuffle_batches_total", &[]);
    for histogram in ["batch_requests", "batch_operations", "batch_bytes", "upstream_microseconds"] {
        assert_eq!(value(&format!("bulk_reshuffle_{histogram}_count"), &[]), batches, "{histogram}");
    }
    // A retried batch counts only once.
    assert_eq!(value("bulk_reshuffle_hold_microseconds_count", &[]), batches - 1.0);
    // Before release 1.39, Envoy counts a value that equals a bound in the next bucket.
    assert_eq!(value("bulk_reshuffle_batch_requests_bucket", &[("le", "2")]), batches);
    assert_eq!(value("bulk_reshuffle_batch_bytes_bucket", &[("le", "67108864")]), batches);
    for gauge in ["held_requests", "held_bytes", "in_flight_batches", "in_flight_bytes", "memory_bytes"] {
        assert_eq!(value(&format!("bulk_reshuffle_{gauge}"), &[]), 0.0, "{gauge}");
    }
    assert_eq!(value("bulk_reshuffle_state_version", &[]), 1.0);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_includes_all_workers() -> Result<()> {
    let scene =
        scene(json!({"admin_path": ADMIN, "credentials": {"authorization": "ApiKey hush"}})).workers(2).start().await?;
    let (gate, body) = (scene.cluster.hold(), scene.cluster.write_books(0));
    // Each request uses its own connection, so that both workers get some.
    let clients: Vec<_> = (0..16).map(|_| scene.begin_bulk("/_bulk", &[], body.clone())).collect();
    scene.wait_for_operations(48).await?;
    wait::until(LIMIT, "the status shows all held operations and those in flight", async || {
        let status = status(&scene).await?;
        let sum =
            |key: &str| status["nodes"].as_array().unwrap().iter().map(|node| node[key].as_u64().unwrap()).sum::<u64>();
        Ok((sum("held_operations") + sum("in_flight_operations") == 48).then_some(()))
    })
    .await?;
    gate.open();
    for client in clients {
        client.get().await?;
    }
    let told = wait::until(LIMIT, "no operation is held any longer", async || {
        let status = status(&scene).await?;
        Ok((status["totals"]["memory_bytes"] == 0).then_some(status))
    })
    .await?;
    assert_eq!(told["totals"]["requests_merged"], 16);
    assert_eq!(told["totals"]["memory_limit_bytes"], 2 * (256 << 20));
    assert_eq!(told["configuration"]["credentials"], json!({"authorization": "***"}));
    assert_eq!(told["build"]["version"], env!("CARGO_PKG_VERSION"));
    for (node, told) in told["nodes"].as_array().unwrap().iter().enumerate() {
        assert_eq!((&told["name"], &told["batch_operations"]), (&json!(format!("es-{node}")), &json!(16)));
        for gauge in ["held_operations", "in_flight_operations"] {
            assert_eq!(told[gauge], 0);
        }
    }

    // The log starts with the configuration, once for all workers, and without secrets.
    let log = scene.envoy.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(" configuration: {")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = lines[0].split("bulk-reshuffle ").last().unwrap();
    let expected =
        format!("{}, commit {}, features: ", env!("CARGO_PKG_VERSION"), told["build"]["commit"].as_str().unwrap());
    assert!(line.starts_with(&expected), "{line}");
    assert!(line.contains(r#""interval":"50ms""#) && !log.contains("hush"), "{line}");
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_path_explains_a_request_and_shows_the_state_and_a_sample() -> Result<()> {
    let scene = scene(json!({"admin_path": ADMIN})).start().await?;
    let body = scene.cluster.write_books(0);
    let explained = scene.bulk(&format!("{ADMIN}/explain"), body.clone()).await?.ok()?.json()?;
    let upstreams: Vec<_> = explained["listed"].as_array().unwrap().iter().map(|one| one["upstream"].clone()).collect();
    assert_eq!(upstreams, ["es-0", "es-1", "es-2"]);
    assert!(scene.cluster.bulks().is_empty());
    let state = scene.client.get(&scene.envoy.url(&format!("{ADMIN}/state"))).await?.ok()?.json()?;
    assert_eq!(state["metadata"]["indices"].as_object().unwrap().keys().collect::<Vec<_>>(), ["books"]);
    let large = vec![b' '; 11 << 20];
    assert_eq!(scene.bulk(&format!("{ADMIN}/explain"), large).await?.status, 413);

    // A sample contains a worker's next requests.
    let url = scene.envoy.url(&format!("{ADMIN}/sample"));
    let (client, sampled) = (scene.client.clone(), url.clone());
    let asking = tokio::spawn(async move { client.get(&sampled).await });
    let sample = wait::until(LIMIT, "the sample is complete", async || {
        scene.bulk("/_bulk", body.clone()).await?.ok()?;
        Ok(asking.is_finished().then_some(()))
    });
    sample.await?;
    let sample = asking.await??.ok()?.text();
    assert_eq!(sample.lines().count(), 6);
    assert!(!sample.contains("\"n\""), "{sample}");
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_rbac_rule_closes_the_admin_path_regardless_of_headers() -> Result<()> {
    // The rule permits all of loopback. Here it permits only 127.0.0.1, so that another loopback address is elsewhere.
    let near = |mut rules: Value| {
        let pointer = "/http_filters/0/typed_config/rules/policies/admin-path-from-elsewhere/principals/0/not_id";
        let principal = rules.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
        for range in principal.values_mut() {
            assert_eq!(*range, json!({"address_prefix": "127.0.0.0", "prefix_len": 8}));
            *range = json!({"address_prefix": "127.0.0.1", "prefix_len": 32});
        }
        rules
    };
    let rules = near(yaml_of_page("envoy/operations.md", "envoy.filters.http.rbac")?);
    let scene = scene(json!({"admin_path": ADMIN}))
        .edit(move |config| {
            http_filters(config).splice(0..0, rules["http_filters"].as_array().unwrap().clone());
            Ok(())
        })
        .start()
        .await?;
    let elsewhere = Client::at([127, 0, 0, 2].into());
    let ask = async |client: &Client, path: &str, said: &str| -> Result<u16> {
        let request = Request::get(scene.envoy.url(path)).header("x-forwarded-for", said).body(Default::default())?;
        Ok(client.send(request).await?.status.as_u16())
    };
    let status = format!("{ADMIN}/status");
    assert_eq!(ask(&scene.client, &status, "127.0.0.1").await?, 200);
    for said in ["127.0.0.1", "203.0.113.7", "127.0.0.1, 127.0.0.1"] {
        assert_eq!(ask(&elsewhere, &status, said).await?, 403, "{said}");
        assert_eq!(ask(&elsewhere, ADMIN, said).await?, 403, "{said}");
    }
    // Other addresses may use all other paths.
    let answer = elsewhere.post_ndjson(&scene.envoy.url("/_bulk"), scene.cluster.write_book(0, 0)?).await?;
    answer.ok()?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_access_log_has_the_outcome_of_each_request() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("access.log");
    let mut access_log = yaml_of_page("envoy/operations.md", "FILTER_STATE")?["access_log"].clone();
    access_log[0]["typed_config"]["path"] = json!(path);
    let scene = scene(json!({"access_log": true}))
        .edit(move |config| {
            manager(config)["access_log"] = access_log;
            Ok(())
        })
        .start()
        .await?;
    let body = scene.cluster.write_books(0);
    scene.bulk("/_bulk", body.clone()).await?.ok()?;
    scene.bulk("/_bulk?pipeline=p", body).await?;
    scene.client.get(&scene.envoy.url("/_cat/nodes")).await?;
    let lines = wait::until(LIMIT, "the log has all three requests", async || {
        let log = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let of = |path: &str| {
            lines.iter().find(|line| line["path"].as_str().is_some_and(|found| found.starts_with(path))).cloned()
        };
        // The log may contain other requests from the start of the test.
        let merged = lines.iter().find(|line| line["outcome"] == "merged").cloned();
        Ok(merged.zip(of("/_bulk?pipeline")).zip(of("/_cat")))
    });
    let ((merged, passed), other) = lines.await?;
    assert_eq!((&merged["operations"], &merged["shares"]), (&json!("3"), &json!("3")));
    assert!(merged["held_microseconds"].as_str().unwrap().parse::<u64>().is_ok(), "{merged}");
    assert_eq!((&passed["outcome"], &passed["reason"]), (&json!("passed_through"), &json!("pipeline")));
    assert!(passed["operations"].is_null(), "{passed}");
    assert_eq!((&passed["flags"], &passed["details"]), (&json!("-"), &json!("via_upstream")));
    assert!(passed["node"].as_str().is_some_and(|node| node.starts_with("127.")), "{passed}");
    assert_eq!((&merged["flags"], &merged["details"]), (&json!("-"), &json!("")));
    assert!(other["outcome"].is_null(), "{other}");
    scene.finish().await
}
