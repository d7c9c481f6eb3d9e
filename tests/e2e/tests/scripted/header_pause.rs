//! Envoy's ways to handle a request whose headers the filter holds back.

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::envoy_config::http_filters;
use bulk_reshuffle_e2e::{ClusterScript, Item, RawClient, Scene, SceneOptions};
use serde_json::{Value, json};

const MERGED: &str = "requests_total.outcome.merged";
const PASSED: &str = "requests_total.outcome.passed_through.reason.header_pause";

/// Removes `allow_on_headers_stop_iteration`, as in deployments that cannot set it. Optionally adds a buffer filter.
fn without_stop(buffer: bool) -> SceneOptions {
    Scene::of(ClusterScript::three_nodes()).edit(move |config| {
        let filters = http_filters(config);
        let position = filters.iter().position(|filter| filter["name"] == "bulk_reshuffle").context("no filter")?;
        let wasm = filters[position].pointer_mut("/typed_config/config").and_then(Value::as_object_mut);
        wasm.context("no configuration")?.remove("allow_on_headers_stop_iteration").context("it is not set")?;
        if buffer {
            let kind = "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer";
            let typed_config = json!({"@type": kind, "max_request_bytes": 104_857_600});
            filters.insert(position + 1, json!({"name": "buffer", "typed_config": typed_config}));
        }
        Ok(())
    })
}

/// Starts a scene in which the filter knows the state, but has seen no body yet.
async fn start(options: SceneOptions) -> Result<Scene> {
    options.start().await
}

/// Sends requests for all nodes; each must be split and answered.
async fn check_split(scene: &Scene, requests: u64) -> Result<()> {
    let before = scene.counted(MERGED).await?;
    for number in 0..requests as usize {
        let answer = scene.bulk("/_bulk", scene.cluster.write_books(number)).await?;
        scene.cluster.check_books(number, &answer)?;
    }
    assert_eq!(scene.counted(MERGED).await?, before + requests);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_body_the_first_two_requests_pass_through_and_the_others_are_split() -> Result<()> {
    for buffer in [true, false] {
        let scene = start(without_stop(buffer)).await?;
        let mut passed = 0;
        while scene.counted(MERGED).await? == 0 {
            let first = scene.bulk("/_bulk", scene.cluster.write_book(0, 0)?).await?;
            assert_eq!(Item::read_all(&first)?[0].status, 201);
            passed = scene.counted(PASSED).await?;
            // On a busy machine, a body may follow its headers too late to show the mode.
            ensure!(passed < 10, "{passed} requests have passed through");
        }
        assert!(passed >= 2, "{passed}");
        check_split(&scene, 5).await?;
        assert!(scene.envoy.log().contains("Set allow_on_headers_stop_iteration"));
        // A large request, and a request whose last operation makes it pass through.
        let large = scene.cluster.write_book(1, 0)?.repeat(30_000);
        assert_eq!(Item::read_all(&scene.bulk("/_bulk", large).await?)?.len(), 30_000);
        let bad = format!("{}{{\"index\":{{\"_index\":\"none\"}}}}\n{{}}\n", scene.cluster.write_book(0, 0)?);
        scene.cluster.forget();
        scene.bulk("/_bulk", bad.clone()).await?;
        assert_eq!(scene.cluster.bulks().iter().map(|batch| batch.text()).collect::<Vec<_>>(), [bad]);
        scene.finish().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_mode_applies_to_the_first_request() -> Result<()> {
    let scene = start(without_stop(true).config(json!({"header_pause": "buffer"}))).await?;
    check_split(&scene, 3).await?;
    assert_eq!(scene.counted(PASSED).await?, 0);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_without_a_body_needs_no_pause() -> Result<()> {
    for (mode, buffer) in [("auto", true), ("auto", false), ("buffer", true)] {
        let config = json!({"header_pause": mode, "single_documents": true});
        let scene = start(without_stop(buffer).config(config)).await?;
        let path = format!("/books/_doc/{}", scene.cluster.book(0, 0)?);
        for number in 1..=3 {
            let request = hyper::Request::delete(scene.envoy.url(&path)).body(bytes::Bytes::new())?;
            assert_eq!(scene.client.send(request).await?.status, 200, "{mode}");
            assert_eq!(scene.cluster.bulks_at(0).len(), number, "{mode}");
        }
        assert_eq!(scene.counted(PASSED).await?, 0);
        scene.finish().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_body_is_answered_and_does_not_change_the_mode() -> Result<()> {
    let scene = start(Scene::of(ClusterScript::three_nodes())).await?;
    let body = scene.cluster.write_book(0, 0)?;
    let mut slow = RawClient::connect(scene.envoy.addr()).await?;
    slow.send_head("/_bulk", &format!("content-length: {}", body.len())).await?;
    scene.wait_for_count(PASSED, 1).await?;
    slow.send(&body).await?;
    assert_eq!(slow.json().await?["items"][0]["index"]["status"], 201);
    check_split(&scene, 3).await?;
    assert_eq!(scene.counted(PASSED).await?, 1);
    scene.finish().await
}
