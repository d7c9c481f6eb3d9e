//! Requests that the filter does not fully understand go to the coordinator unchanged.

use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_e2e::{ClusterScript, Index, Item, RawClient, Reaction, Scene, lines};
use bulk_reshuffle_stack::wait;
use hyper::{Method, Request};
use serde_json::json;

/// Returns a cluster with an index for each reason not to route.
fn odd_cluster() -> ClusterScript {
    ClusterScript::three_nodes()
        .index(Index::new("closed", [0, 1, 2]).closed())
        .index(Index::new("headless", [0]).unassigned(0))
        .index(Index::new("piped", [0]).setting("default_pipeline", "reroute"))
        .index(Index::new("finally-piped", [0]).setting("final_pipeline", "reroute"))
        .index(Index::new("series", [0]).setting("mode", "time_series"))
        .index(Index::new("left", [0]).alias("both", json!({})).alias("mine", json!({"index_routing": "me"})))
        .index(Index::new("right", [1]).alias("both", json!({})))
}

const LIMIT: Duration = Duration::from_secs(15);

/// The reason for which a request passes through, and the text that follows a valid operation in its body.
const BODIES: &[(&str, &str)] = &[
    ("incomplete", "{\"index\":{\"_index\":\"books\",\"_id\":\"2\"}}\n{\"n\":2}"),
    ("incomplete", "{\"index\":{\"_index\":\"books\",\"_id\":\"2\"}}\n"),
    ("action_line", "no action\n{\"n\":2}\n"),
    ("action_line", "{}\n{\"n\":2}\n"),
    ("action_line", "{\"upsert\":{\"_id\":\"2\"}}\n{\"n\":2}\n"),
    ("action_line", "{\"index\":{\"_id\":\"2\",\"_type\":\"book\"}}\n{\"n\":2}\n"),
    ("type", "{\"index\":{\"_index\":\"books\",\"_id\":\"2\",\"_type\":\"_doc\"}}\n{\"n\":2}\n"),
    ("action_line", "{\"index\":{\"_id\":\"2\",\"_routing\":\"a\"}}\n{\"n\":2}\n"),
    ("action_line", "{\"index\":{\"_id\":\"2\",\"colour\":\"red\"}}\n{\"n\":2}\n"),
    ("action_line", "{\"index\":{\"_index\":\"books\",\"_id\":\"2\"}} x\n{\"n\":2}\n"),
    ("action_line", "{\"index\":{\"_id\":\"2\"},\"delete\":{\"_id\":\"3\"}}\n{\"n\":2}\n"),
    ("action_line", "{\"delete\":{\"_index\":\"books\"}}\n"),
    ("action_line", "{\"update\":{\"_index\":\"books\"}}\n{\"doc\":{}}\n"),
    ("action_line", "{\"index\":{\"_index\":\"books\",\"_id\":\"\"}}\n{\"n\":2}\n"),
    ("action_line", "{\"index\":{\"_id\":\"2\",\"version\":1}}\n{\"n\":2}\n"),
    ("action_line", "{\"create\":{\"_id\":\"2\",\"version\":1,\"version_type\":\"external\"}}\n{\"n\":2}\n"),
    ("action_line", "{\"create\":{\"_id\":\"2\",\"if_seq_no\":1,\"if_primary_term\":1}}\n{\"n\":2}\n"),
    ("action_line", "{\"update\":{\"_id\":\"2\",\"version\":1}}\n{\"doc\":{}}\n"),
    ("update_body", "{\"update\":{\"_index\":\"books\",\"_id\":\"2\"}}\n[]\n"),
    ("update_body", "{\"update\":{\"_index\":\"books\",\"_id\":\"2\"}}\n{\"n\":2}\n"),
    ("update_body", "{\"update\":{\"_index\":\"books\",\"_id\":\"2\"}}\n{\"doc\":{\n"),
    ("pipeline", "{\"index\":{\"_index\":\"books\",\"_id\":\"2\",\"pipeline\":\"p\"}}\n{\"n\":2}\n"),
    ("pipeline", "{\"index\":{\"_index\":\"books\",\"_id\":\"2\",\"pipeline\":\"p\"}}\n{\"n\":2}\n"),
    ("no_index", "{\"index\":{\"_id\":\"2\"}}\n{\"n\":2}\n"),
    ("no_index", "{\"index\":{\"_index\":null,\"_id\":\"1\"}}\n{\"n\":2}\n"),
    ("unknown_index", "{\"index\":{\"_index\":\"new\",\"_id\":\"2\"}}\n{\"n\":2}\n"),
    ("date_math", "{\"index\":{\"_index\":\"<logs-{now/d}>\",\"_id\":\"2\"}}\n{\"n\":2}\n"),
    ("closed", "{\"index\":{\"_index\":\"closed\",\"_id\":\"2\"}}\n{\"n\":2}\n"),
    ("primary", "{\"index\":{\"_index\":\"headless\",\"_id\":\"2\"}}\n{\"n\":2}\n"),
    ("index_pipeline", "{\"index\":{\"_index\":\"piped\",\"_id\":\"2\"}}\n{\"n\":2}\n"),
    ("index_pipeline", "{\"index\":{\"_index\":\"finally-piped\",\"_id\":\"2\"}}\n{\"n\":2}\n"),
    (
        "same_id",
        "{\"index\":{\"_index\":\"series\",\"_id\":\"2\"}}\n{}\n{\"index\":{\"_index\":\"left\",\"_id\":\"2\"}}\n{}\n",
    ),
    ("alias", "{\"index\":{\"_index\":\"both\",\"_id\":\"2\"}}\n{\"n\":2}\n"),
    ("alias_routing", "{\"index\":{\"_index\":\"mine\",\"_id\":\"2\",\"routing\":\"you\"}}\n{\"n\":2}\n"),
];

/// The reason for which a request with a valid body passes through, its path, and one of its headers.
const HEADS: &[(&str, &str, (&str, &str))] = &[
    ("parameter", "/_bulk?colour=red", ("x-any", "1")),
    ("pipeline", "/_bulk?pipeline=p", ("x-any", "1")),
    ("parameter", "/_bulk?filter_path=-items.*.error.type", ("x-any", "1")),
    ("parameter", "/_bulk?format=yaml", ("x-any", "1")),
    ("parameter", "/_bulk?routing=a&routing=b", ("x-any", "1")),
    ("parameter", "/_bulk?routing=a%62", ("x-any", "1")),
    ("path", "/books/_doc/_bulk", ("x-any", "1")),
    ("path", "/b%6foks/_bulk", ("x-any", "1")),
    ("path", "//_bulk", ("x-any", "1")),
    ("date_math", "/%3Cbooks-%7Bnow%2Fd%7D%3E/_bulk", ("x-any", "1")),
    ("content_encoding", "/_bulk", ("content-encoding", "deflate")),
    ("gzip", "/_bulk", ("content-encoding", "gzip")),
    ("content_type", "/_bulk", ("content-type", "text/plain")),
    ("content_type", "/_bulk", ("content-type", "application/x-ndjson; charset=utf-16")),
    ("accept", "/_bulk", ("accept", "application/yaml")),
    ("accept", "/_bulk", ("accept", "application/json, application/cbor")),
];

/// Sends a request that must pass through for this reason, and checks that it arrives unchanged.
async fn passes_through(scene: &Scene, why: &str, path: &str, header: (&str, &str), body: &[u8]) -> Result<()> {
    let before = scene.passed_through().await?.remove(why).unwrap_or_default();
    scene.cluster.forget();
    let headers = [header, ("user-agent", "curl/8"), ("authorization", "Basic czpz")];
    let answer = scene.bulk_with(path, &headers, body.to_vec()).await?;

    let shown = String::from_utf8_lossy(body.get(..300).unwrap_or(body));
    assert_eq!(answer.status, 400, "{why}: {shown}");
    assert_eq!(answer.json()?["error"]["reason"], "as the cluster says", "{why}: {shown}");
    assert_eq!(answer.headers["x-from"], "the cluster");
    let requests = scene.cluster.bulks();
    assert_eq!(requests.len(), 1, "{why}: {shown}");
    assert!(requests[0].body == body, "{why}: {shown}\n\narrived as\n{}", requests[0].text());
    assert_eq!((requests[0].method.as_str(), requests[0].target.as_str()), ("POST", path));
    for (name, value) in headers {
        assert_eq!(requests[0].header(name), Some(value), "{why}: {path}");
    }
    // The counter may lag while other requests are held.
    let counted = async || Ok(scene.passed_through().await?.get(why).copied().filter(|count| *count > before));
    let count = wait::until(LIMIT, &format!("{why} is counted: {path} {shown}"), counted).await?;
    assert_eq!(count, before + 1, "{why}: {path} {shown}");
    Ok(())
}

fn as_the_cluster_says() -> Reaction {
    Reaction::refusal(400, "illegal_argument_exception", "as the cluster says").header("x-from", "the cluster")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_not_fully_understood_passes_through_unchanged() -> Result<()> {
    let scene = Scene::of(odd_cluster()).start().await?;
    scene.cluster.react(|_| as_the_cluster_says());
    let good = scene.cluster.write_book(0, 0)?;
    for (why, rest) in BODIES {
        passes_through(&scene, why, "/_bulk", ("x-any", "1"), format!("{good}{rest}").as_bytes()).await?;
    }
    let long = lines::index("books", &"x".repeat(513), 2);
    passes_through(&scene, "action_line", "/_bulk", ("x-any", "1"), format!("{good}{long}").as_bytes()).await?;
    let endless = lines::index("books", &"x".repeat(100_000), 2);
    passes_through(&scene, "action_line", "/_bulk", ("x-any", "1"), format!("{good}{endless}").as_bytes()).await?;
    let not_text = [good.as_bytes(), b"{\"index\":{\"_index\":\"books\",\"_id\":\"\xff\"}}\n{}\n"].concat();
    passes_through(&scene, "action_line", "/_bulk", ("x-any", "1"), &not_text).await?;
    for nothing in ["", "\n", " \r\n\n"] {
        passes_through(&scene, "empty", "/_bulk", ("x-any", "1"), nothing.as_bytes()).await?;
    }
    for (why, path, header) in HEADS {
        passes_through(&scene, why, path, *header, good.as_bytes()).await?;
    }
    assert_eq!(scene.counted("requests_total.outcome.merged").await?, 0);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_header_that_is_not_text_passes_through() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let body = scene.cluster.write_book(0, 0)?;
    let mut client = RawClient::connect(scene.envoy.addr()).await?;
    let head =
        "POST /_bulk HTTP/1.1\r\nhost: fake\r\nconnection: close\r\ncontent-type: application/x-ndjson\r\nx-odd: ";
    client.send([head.as_bytes(), b"\xfe\xff\r\ncontent-length: "].concat()).await?;
    client.send(format!("{}\r\n\r\n{body}", body.len())).await?;
    client.read_to_end().await?;
    let request = scene.cluster.bulks().remove(0);
    assert_eq!(request.headers["x-odd"].as_bytes(), b"\xfe\xff");
    assert_eq!(request.text(), body);
    assert_eq!(scene.passed_through().await?, [("header".to_owned(), 1)].into());
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn all_requests_pass_through_until_the_state_is_known() -> Result<()> {
    let config = json!({"cluster_state": {"refresh": "200ms"}});
    let scene = Scene::of(ClusterScript::three_nodes()).config(config).start_without_state().await?;
    let body = scene.cluster.write_books(0);
    let answer = scene.bulk("/_bulk", body.clone()).await?;
    assert_eq!(Item::read_all(&answer)?.len(), 3);
    assert_eq!(scene.cluster.bulks().len(), 1);
    assert_eq!(scene.cluster.bulks()[0].text(), body);
    assert_eq!(scene.passed_through().await?, [("no_state".to_owned(), 1)].into());
    scene.cluster.react_to_state_queries(|_| None);
    scene.envoy.wait_for_state(LIMIT).await?;
    scene.bulk("/_bulk", body).await?;
    assert_eq!(scene.cluster.bulks().len(), 4);
    scene.finish().await
}

/// Returns many operations of 1 kB, followed by a truncated one.
fn large_body(scene: &Scene, bytes: usize) -> Vec<u8> {
    let mut body = Vec::with_capacity(bytes + 2000);
    let line = lines::large("books", &scene.cluster.book(1, 0).unwrap(), 1000);
    while body.len() < bytes {
        body.extend_from_slice(line.as_bytes());
    }
    body.extend_from_slice(b"{\"index\":{\"_index\":\"books\"");
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_request_with_an_invalid_end_passes_through_unchanged() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    scene.cluster.react(|_| as_the_cluster_says());
    for megabytes in [3, 30] {
        let body = large_body(&scene, megabytes << 20);
        passes_through(&scene, "incomplete", "/_bulk", ("x-any", "1"), &body).await?;
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_beyond_the_limits_passes_through_unchanged() -> Result<()> {
    let config = json!({"limits": {"max_request": "1mb", "memory": "3mb"}});
    let scene = Scene::of(ClusterScript::three_nodes()).config(config).start().await?;
    scene.cluster.react(|_| as_the_cluster_says());
    let body = large_body(&scene, 5 << 20);
    passes_through(&scene, "too_large", "/_bulk", ("x-any", "1"), &body).await?;

    // Without a content length, the filter detects the excess only while the body arrives.
    scene.cluster.forget();
    let mut client = RawClient::connect(scene.envoy.addr()).await?;
    client.send_in_chunks("/_bulk", &body, 100_000, "0\r\n\r\n").await?;
    let answer = client.read_to_end().await?;
    assert!(answer.contains("as the cluster says"), "{answer}");
    assert!(scene.cluster.bulks()[0].body == body);
    assert_eq!(scene.passed_through().await?, [("too_large".to_owned(), 2)].into());

    // While two requests use almost all memory, there is no room for a third one.
    let gate = scene.cluster.hold_if(|request| request.node == 0);
    let large = lines::large("books", &scene.cluster.book(0, 0)?, 900_000);
    let held = [scene.begin_bulk("/_bulk", &[], large.clone()), scene.begin_bulk("/_bulk", &[], large)];
    scene.wait_for_operations(2).await?;
    scene.cluster.wait_for_bulks("both requests", |requests| requests.len() == 2).await?;
    scene.cluster.react(|_| as_the_cluster_says());
    let third = lines::large("books", &scene.cluster.book(1, 0)?, 900_000);
    passes_through(&scene, "memory", "/_bulk", ("x-any", "1"), third.as_bytes()).await?;
    gate.open();
    for answer in held {
        answer.get().await?;
    }
    // After the memory is released, there is room again.
    scene.bulk("/_bulk", third).await?;
    assert_eq!(scene.passed_through().await?["memory"], 1);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_filter_ignores_requests_other_than_bulk_requests() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let search = r#"{"query":{"match_all":{}}}"#;
    for (method, path, body) in [
        (Method::GET, "/", ""),
        (Method::GET, "/_bulk", ""),
        (Method::DELETE, "/books/_bulk", ""),
        (Method::POST, "/books/_search?size=3", search),
        (Method::GET, "/books/_search", search),
        (Method::POST, "/_bulk/more", search),
        (Method::POST, "/_msearch", "{}\n{}\n"),
        (Method::PUT, "/books/_doc/_bulk%20?x=/_bulk", search),
        (Method::HEAD, "/books", ""),
        // There is no admin path by default.
        (Method::GET, "/_bulk_reshuffle/status", ""),
    ] {
        scene.cluster.forget();
        let request = Request::builder().method(&method).uri(scene.envoy.url(path)).header("x-mine", "1");
        let answer = scene.client.send(request.body(body.into())?).await?;
        assert_eq!(answer.status, 200, "{method} {path}");
        let arrived = scene.cluster.others().into_iter().find(|request| request.header("x-mine").is_some()).unwrap();
        assert_eq!((&arrived.method, arrived.target.as_str()), (&method, path));
        assert_eq!(arrived.text(), body, "{method} {path}");
        if method != Method::HEAD {
            assert_eq!(answer.json()?["target"], path);
        }
    }
    assert_eq!(scene.cluster.bulks().len(), 0);
    assert_eq!(scene.passed_through().await?, [].into());
    scene.finish().await
}
