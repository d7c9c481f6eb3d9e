//! Requests for single documents, which join the batches of bulk requests.

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::envoy_config::{http_filters, routes};
use bulk_reshuffle_e2e::{ClusterScript, Items, RawClient, Reaction, Recorded, Scene, SceneOptions};
use bulk_reshuffle_stack::Response;
use bytes::Bytes;
use hyper::{Method, Request, Version};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

fn options() -> SceneOptions {
    Scene::of(ClusterScript::three_nodes()).config(json!({"single_documents": true}))
}

/// Begins to send a request for a single document.
fn begin(scene: &Scene, method: Method, path: &str, caller: &str, body: &str) -> JoinHandle<Result<Response>> {
    let (client, body) = (scene.client.clone(), Bytes::copy_from_slice(body.as_bytes()));
    let mut request = Request::builder().method(&method).uri(scene.envoy.url(path)).header("authorization", caller);
    if method != Method::DELETE {
        request = request.header("content-type", "application/json");
    }
    tokio::spawn(async move { client.send(request.body(body)?).await })
}

async fn send(scene: &Scene, method: Method, path: &str, body: &str) -> Result<Response> {
    begin(scene, method, path, "Basic a", body).await?
}

/// Returns the path of a book on this node.
fn book(scene: &Scene, node: usize, number: usize) -> Result<String> {
    Ok(format!("/books/_doc/{}", scene.cluster.book(node, number)?))
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_one_caller_leave_in_one_batch_and_those_of_others_do_not() -> Result<()> {
    let scene = options().start().await?;
    let gate = scene.cluster.hold();
    let paths = (0..4).map(|number| book(&scene, 1, number)).collect::<Result<Vec<_>>>()?;
    let first = begin(&scene, Method::PUT, &paths[0], "Basic a", r#"{"n":0}"#);
    scene.cluster.wait_for_bulks("the first batch", |batches| batches.len() == 1).await?;
    let put = begin(&scene, Method::PUT, &paths[1], "Basic a", r#"{"n": 1}"#);
    let deleted = begin(&scene, Method::DELETE, &paths[2], "Basic a", "");
    let headers = [("authorization", "Basic a"), ("content-type", "application/json")];
    let bulk = scene.begin_bulk("/_bulk", &headers[..1], scene.cluster.write_book(1, 5)?);
    let of_other = begin(&scene, Method::PUT, &paths[3], "Basic b", r#"{"n":3}"#);
    scene.wait_for_operations(5).await?;
    gate.open();
    assert_eq!((first.await??.status.as_u16(), of_other.await??.status.as_u16()), (201, 201));
    let (put, deleted) = (put.await??, deleted.await??);
    let id = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    assert_eq!((put.status.as_u16(), put.json()?["_id"].as_str()), (201, Some(id(&paths[1]).as_str())));
    assert_eq!(put.headers["location"].to_str()?, paths[1]);
    assert_eq!(put.json()?.get("status"), None);
    assert_eq!(deleted.json()?["_id"], json!(id(&paths[2])));
    assert_eq!(bulk.get().await?.status, 200);

    let batches = scene.cluster.bulks();
    let of = |caller: &str| -> Vec<usize> {
        let own = batches.iter().filter(|batch| batch.header("authorization") == Some(caller));
        let mut sizes: Vec<usize> = own.map(|batch| batch.operations().unwrap().len()).collect();
        sizes.sort_unstable();
        sizes
    };
    // A bulk request has another content type, which a server may act on.
    assert_eq!((of("Basic a"), of("Basic b")), (vec![1, 1, 2], vec![1]));
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_document_arrives_at_the_coordinator_as_its_client_sent_it() -> Result<()> {
    let scene = options().start().await?;
    let refuse = |items: &mut Vec<Value>| {
        for item in items.iter_mut().filter_map(|item| item.as_object_mut()?.values_mut().next()?.as_object_mut()) {
            item.insert("status".into(), json!(409));
            item.insert("error".into(), json!({"type": "version_conflict_engine_exception", "reason": "exists"}));
        }
    };
    scene.cluster.react(move |_| Reaction::Items(Items::default().change(refuse)));
    scene.cluster.react_to_state_queries(|request| {
        let refusal = || Reaction::refusal(409, "version_conflict_engine_exception", "as the cluster says");
        request.path().starts_with("/books/").then(refusal)
    });
    let path = book(&scene, 0, 0)?.replace("_doc", "_create") + "?routing=a%20b&refresh=true";
    let answer = send(&scene, Method::PUT, &path, r#"{"n": 1}"#).await?;
    assert_eq!((answer.status.as_u16(), &answer.json()?["error"]["reason"]), (409, &json!("as the cluster says")));
    let others = scene.cluster.others();
    let originals: Vec<&Recorded> = others.iter().filter(|request| request.path().starts_with("/books/")).collect();
    assert_eq!((originals.len(), scene.cluster.bulks().len()), (1, 1));
    let Recorded { method, target, .. } = originals[0];
    assert_eq!((method, target.as_str(), originals[0].text().as_str()), (&Method::PUT, path.as_str(), r#"{"n": 1}"#));
    assert_eq!(originals[0].header("authorization"), Some("Basic a"));
    scene.wait_for_count("single_documents_total.outcome.refused", 1).await?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_line_of_a_bulk_request_arrives_unchanged() -> Result<()> {
    let scene = options().start().await?;
    let path = book(&scene, 0, 0)?;
    let mapping = "/books/_doc/_mapping".to_owned();
    for (why, method, path, body) in [
        ("document_body", Method::PUT, &path, "{\n}"),
        ("document_body", Method::POST, &path, "{}\n{\"delete\":{\"_index\":\"books\",\"_id\":\"1\"}}\n"),
        ("document_body", Method::DELETE, &path, "{}"),
        ("empty", Method::PUT, &path, ""),
        ("parameter", Method::PUT, &format!("{path}?colour=red"), "{}"),
        ("action_line", Method::PUT, &format!("{path}?version=3"), "{}"),
        ("path", Method::PUT, &mapping, "{}"),
        ("unknown_index", Method::PUT, &"/none/_doc/1".to_owned(), "{}"),
    ] {
        scene.cluster.forget();
        let before = scene.passed_through().await?.remove(why).unwrap_or_default();
        let answer = send(&scene, method.clone(), path, body).await?;
        assert_eq!(
            (answer.json()?["method"].as_str(), answer.json()?["target"].as_str()),
            (Some(method.as_str()), Some(path.as_str()))
        );
        let others = scene.cluster.others();
        let arrived = others.iter().find(|request| request.target == *path).context("it did not arrive")?;
        assert_eq!((arrived.text().as_str(), scene.cluster.bulks().len()), (body, 0), "{why}");
        scene.wait_for_count(&format!("requests_total.outcome.passed_through.reason.{why}"), before + 1).await?;
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_and_policies_for_a_method_apply() -> Result<()> {
    let options = options().edit(|config| {
        let forbidden = json!({
            "match": {"prefix": "/books/", "headers": [{"name": ":method", "string_match": {"exact": "DELETE"}}]},
            "direct_response": {"status": 405, "body": {"inline_string": "no deletions"}},
        });
        routes(config).insert(0, forbidden);
        let is_create = json!({"url_path": {"path": {"prefix": "/books/_create/"}}});
        let policies = json!({"no-create": {"permissions": [is_create], "principals": [{"any": true}]}});
        let rbac = json!({
            "name": "envoy.filters.http.rbac",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
                "rules": {"action": "DENY", "policies": policies},
            },
        });
        http_filters(config).insert(0, rbac);
        Ok(())
    });
    let scene = options.start().await?;
    let path = book(&scene, 0, 0)?;
    assert_eq!(send(&scene, Method::DELETE, &path, "").await?.body.as_ref(), b"no deletions");
    assert_eq!(send(&scene, Method::PUT, &path.replace("_doc", "_create"), "{}").await?.status, 403);
    assert_eq!(scene.cluster.bulks().len(), 0);
    assert_eq!(send(&scene, Method::PUT, &path, "{}").await?.status, 201);
    assert_eq!(scene.cluster.bulks().len(), 1);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_writes_of_a_pipelined_connection_keep_their_order() -> Result<()> {
    const WRITES: usize = 50;
    let scene = options().start().await?;
    let path = book(&scene, 2, 0)?;
    let mut client = RawClient::connect(scene.envoy.addr()).await?;
    let mut sent = String::new();
    for number in 0..WRITES {
        let (last, close) = (number + 1 == WRITES, "connection: close\r\n");
        let (method, body) =
            if number % 5 == 4 { ("DELETE", String::new()) } else { ("PUT", format!("{{\"n\":{number}}}")) };
        let content = if body.is_empty() {
            String::new()
        } else {
            format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len())
        };
        sent +=
            &format!("{method} {path} HTTP/1.1\r\nhost: fake\r\n{content}{}\r\n{body}", if last { close } else { "" });
    }
    client.send(sent).await?;
    let answers = client.read_to_end().await?;
    assert_eq!(answers.matches("HTTP/1.1 20").count(), WRITES, "{answers}");
    let numbers: Vec<Option<u64>> = scene
        .cluster
        .bulks_at(2)
        .iter()
        .flat_map(|batch| batch.operations().unwrap())
        .map(|operation| operation.source?["n"].as_u64())
        .collect();
    let expected = (0..WRITES as u64).map(|number| (number % 5 != 4).then_some(number));
    assert_eq!(numbers, expected.collect::<Vec<_>>());
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_arrive_over_http2_with_and_without_a_body() -> Result<()> {
    let scene = options().start().await?;
    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
        .http2_only(true)
        .build_http::<http_body_util::Full<Bytes>>();
    let path = book(&scene, 0, 0)?;
    for (method, body, content_type) in [("PUT", "{}", Some("application/json")), ("DELETE", "", None)] {
        let mut request = Request::builder().method(method).uri(scene.envoy.url(&path)).version(Version::HTTP_2);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let answer = client.request(request.body(http_body_util::Full::from(body))?).await?;
        assert!(answer.status().is_success(), "{}", answer.status());
    }
    assert_eq!(scene.cluster.bulks_at(0).len(), 2);
    scene.finish().await
}

/// Sends a request with this framing and body on a connection of its own. Returns the status.
async fn send_raw(scene: &Scene, method: &str, path: &str, framing: &str, body: &str) -> Result<String> {
    let mut client = RawClient::connect(scene.envoy.addr()).await?;
    let fixed = "host: fake\r\nconnection: close\r\ncontent-type: application/json";
    client.send(format!("{method} {path} HTTP/1.1\r\n{fixed}\r\n{framing}\r\n")).await?;
    if framing.contains("100-continue") {
        client.read_until("HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    client.send(body).await?;
    let answer = client.read_to_end().await?;
    Ok(answer.split(' ').nth(1).context("no status")?.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn any_framing_of_a_body_leads_to_the_same_decision() -> Result<()> {
    const CHUNKED: &str = "transfer-encoding: chunked\r\n";
    let scene = options().start().await?;
    let path = book(&scene, 0, 0)?;
    for (method, framing, body, is_merged) in [
        ("DELETE", "", "", true),
        ("DELETE", "content-length: 0\r\n", "", true),
        ("DELETE", CHUNKED, "0\r\n\r\n", true),
        ("DELETE", CHUNKED, "0\r\nx-trailer: 1\r\n\r\n", true),
        ("DELETE", "expect: 100-continue\r\ntransfer-encoding: chunked\r\n", "0\r\n\r\n", true),
        ("DELETE", "content-length: 2\r\n", "{}", false),
        ("DELETE", CHUNKED, "2\r\n{}\r\n0\r\n\r\n", false),
        ("DELETE", CHUNKED, "1\r\n\n\r\n0\r\n\r\n", false),
        ("PUT", "expect: 100-continue\r\ncontent-length: 2\r\n", "{}", true),
        ("PUT", CHUNKED, "1\r\n{\r\n1\r\n}\r\n0\r\nx-trailer: 1\r\n\r\n", true),
        ("PUT", CHUNKED, "0\r\n\r\n", false),
    ] {
        scene.cluster.forget();
        let status = send_raw(&scene, method, &path, framing, body).await?;
        let found = (scene.cluster.bulks().len(), own(&scene, &path).len());
        let expected = if is_merged { (1, 0) } else { (0, 1) };
        assert_eq!(found, expected, "{method} {framing:?} {body:?}: {status}");
        assert!(status.starts_with("20"), "{method} {framing:?} {body:?}: {status}");
    }
    // One of the two lengths is wrong, and a server behind Envoy might believe the other one. Envoy refuses the headers
    // before it reads a body, and would reset the connection for unread bytes.
    scene.cluster.forget();
    let both = format!("content-length: 0\r\n{CHUNKED}");
    assert_eq!(send_raw(&scene, "DELETE", &path, &both, "").await?, "400");
    assert_eq!((scene.cluster.bulks().len(), own(&scene, &path).len()), (0, 0));
    scene.finish().await
}

/// Returns the requests for a path that have arrived by themselves.
fn own(scene: &Scene, path: &str) -> Vec<Recorded> {
    scene.cluster.others().into_iter().filter(|request| request.target == path).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_over_http2_joins_batches_unless_it_has_a_body() -> Result<()> {
    let scene = options().start().await?;
    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
        .http2_only(true)
        .build_http::<http_body_util::channel::Channel<Bytes, std::io::Error>>();
    let path = book(&scene, 0, 0)?;
    for (body, expected) in [("", (1, 0)), ("{}", (0, 1)), ("\n", (0, 1))] {
        scene.cluster.forget();
        let (mut sender, receiver) = http_body_util::channel::Channel::new(1);
        let request = Request::delete(scene.envoy.url(&path)).version(Version::HTTP_2).body(receiver)?;
        let answer = client.request(request);
        let send = async {
            if !body.is_empty() {
                sender.send_data(Bytes::from(body)).await?;
            }
            drop(sender);
            anyhow::Ok(())
        };
        let (sent, answer) = tokio::join!(send, answer);
        sent?;
        assert!(answer?.status().is_success(), "{body:?}");
        assert_eq!((scene.cluster.bulks().len(), own(&scene, &path).len()), expected, "{body:?}");
    }
    scene.finish().await
}
