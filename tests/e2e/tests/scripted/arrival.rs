//! Requests give the same result no matter how their bytes arrive.

use anyhow::Result;
use bulk_reshuffle_e2e::envoy_config::manager;
use bulk_reshuffle_e2e::{ClusterScript, Http2Client, Item, RawClient, Scene, SceneOptions, lines};
use hyper::HeaderMap;
use serde_json::{Value, json};

/// Returns a body with all actions for all nodes, and each node's part of it.
fn body(scene: &Scene) -> (String, [String; 3]) {
    let (mut body, mut parts) = (String::new(), [const { String::new() }; 3]);
    for number in 0..12_u64 {
        let node = number as usize % 3;
        let id = scene.cluster.book(node, number as usize / 3).unwrap();
        let lines = match number % 4 {
            0 => lines::index("books", &id, number),
            1 => lines::create("books", &id, number),
            2 => lines::update("books", &id, number),
            _ => lines::delete("books", &id),
        };
        body += &lines;
        parts[node] += &lines;
    }
    (body, parts)
}

/// Checks that each node got its part, and that the client got an answer for every operation.
fn check(scene: &Scene, parts: &[String; 3], answer: &Value) -> Result<()> {
    for (node, part) in parts.iter().enumerate() {
        assert_eq!(&scene.cluster.only_bulk_at(node)?.text(), part, "at es-{node}");
    }
    let numbers: Vec<_> = Item::of_answer(answer)?.iter().filter_map(Item::number).collect();
    assert_eq!(numbers, [0, 1, 2, 0, 4, 5, 6, 0, 8, 9, 10, 0]);
    scene.cluster.forget();
    Ok(())
}

/// Enables trailers of HTTP/1 requests, which Envoy drops by default.
fn with_trailers() -> SceneOptions {
    Scene::of(ClusterScript::three_nodes()).edit(|config| {
        manager(config)["http_protocol_options"] = json!({"enable_trailers": true});
        Ok(())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_may_arrive_in_pieces_of_any_size() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let (body, parts) = body(&scene);
    let sizes: [&[usize]; 6] = [&[1], &[2, 3], &[7], &[64], &[1, 50, 3, 17, 200, 5, 31, 2], &[100_000]];
    for sizes in sizes {
        let mut client = RawClient::connect(scene.envoy.addr()).await?;
        client.send_in_pieces("/_bulk", body.as_bytes(), sizes).await?;
        check(&scene, &parts, &client.json().await?)?;
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_may_arrive_in_chunks_of_any_size_with_or_without_trailers() -> Result<()> {
    let scene = with_trailers().start().await?;
    let (body, parts) = body(&scene);
    for size in [1, 7, 40, 100_000] {
        for end in ["0\r\n\r\n", "0\r\nx-checksum: 1\r\n\r\n"] {
            let mut client = RawClient::connect(scene.envoy.addr()).await?;
            client.send_in_chunks("/_bulk", body.as_bytes(), size, end).await?;
            check(&scene, &parts, &client.json().await?)?;
        }
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_may_arrive_over_http_2_with_or_without_trailers() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let (body, parts) = body(&scene);
    let mut client = Http2Client::connect(scene.envoy.addr()).await?;
    let trailers = HeaderMap::from_iter([("x-checksum".parse()?, "1".parse()?)]);
    for frame in [1, 40, 100_000] {
        for trailers in [None, Some(trailers.clone())] {
            check(&scene, &parts, &client.bulk("/_bulk", body.as_bytes(), frame, trailers).await?)?;
        }
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_do_not_change_a_body_that_passes_through() -> Result<()> {
    let scene = with_trailers().start().await?;
    let good = body(&scene).0;
    let mut http2 = Http2Client::connect(scene.envoy.addr()).await?;
    // The reason to pass through is the first line, the last line, and the missing end of the last line.
    let late = format!("{good}{{\"delete\":{{\"_index\":\"unknown\",\"_id\":\"1\"}}}}\n");
    let early = format!("{{\"delete\":{{\"_index\":\"unknown\",\"_id\":\"1\"}}}}\n{good}");
    let cut = good.trim_end().to_owned();
    for body in [early, late, cut] {
        for frame in [30, 100_000] {
            scene.cluster.forget();
            let trailers = HeaderMap::from_iter([("x-checksum".parse()?, "1".parse()?)]);
            http2.bulk("/_bulk", body.as_bytes(), frame, Some(trailers)).await?;

            let mut http1 = RawClient::connect(scene.envoy.addr()).await?;
            http1.send_in_chunks("/_bulk", body.as_bytes(), frame, "0\r\nx-checksum: 1\r\n\r\n").await?;
            http1.read_to_end().await?;

            let arrived = scene.cluster.bulks();
            assert_eq!(arrived.len(), 2);
            assert_eq!(arrived[0].text(), body, "over HTTP/2");
            assert_eq!(arrived[1].text(), body, "over HTTP/1");
        }
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_body_does_not_delay_other_requests() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let (body, parts) = body(&scene);
    let (start, end) = body.split_at(body.len() / 2);
    let mut slow = RawClient::connect(scene.envoy.addr()).await?;
    slow.send_head("/_bulk", &format!("content-length: {}", body.len())).await?;
    slow.send(start).await?;
    let quick = scene.bulk("/_bulk", body.clone()).await?;
    check(&scene, &parts, &quick.json()?)?;
    slow.send(end).await?;
    check(&scene, &parts, &slow.json().await?)?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_may_expect_100_continue() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let (body, parts) = body(&scene);
    let mut client = RawClient::connect(scene.envoy.addr()).await?;
    client.send_head("/_bulk", &format!("content-length: {}\r\nexpect: 100-continue", body.len())).await?;
    client.read_until("HTTP/1.1 100 Continue\r\n\r\n").await?;
    client.send(&body).await?;
    check(&scene, &parts, &client.json().await?)?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let requests: String = (0..3)
        .map(|node| {
            let body = scene.cluster.write_book(node, node).unwrap();
            let head = "host: fake\r\ncontent-type: application/x-ndjson";
            format!("POST /_bulk HTTP/1.1\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        })
        .collect();
    let mut client = RawClient::connect(scene.envoy.addr()).await?;
    client.send(format!("{requests}GET /last HTTP/1.1\r\nhost: fake\r\n\r\n")).await?;
    let answers = client.read_until("\"target\":\"/last\"").await?;
    let places: Vec<_> = (0..3).map(|number| answers.find(&format!("\"_seq_no\":{number}"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 4, "{answers}");
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_in_tiny_frames_counts_with_the_memory_that_it_uses() -> Result<()> {
    let config = json!({"limits": {"memory": "1mb", "max_request": "1mb"}});
    let scene = Scene::of(ClusterScript::three_nodes()).config(config).start().await?;
    let body = lines::large("books", &scene.cluster.book(0, 0)?, 60_000);
    let mut client = Http2Client::connect(scene.envoy.addr()).await?;
    client.bulk("/_bulk", body.as_bytes(), 1, None).await?;
    assert_eq!(scene.passed_through().await?, [("memory".to_owned(), 1)].into());
    assert_eq!(scene.cluster.bulks()[0].text(), body);
    scene.finish().await
}
