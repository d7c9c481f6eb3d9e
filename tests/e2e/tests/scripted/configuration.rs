//! The filter's configuration and its credentials.

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{ClusterScript, ListenerFile, Scene};
use serde_json::{Value, json};

/// Changes the configuration. Waits until Envoy has counted the update, and returns what it has logged since.
async fn send(scene: &Scene, config: &Value, counter: &str) -> Result<String> {
    let counter = format!("listener_manager.lds.{counter}");
    let (count, length) = (scene.envoy.counter(&counter).await?, scene.envoy.log().len());
    ListenerFile::of(&scene.envoy)?.set_config(config)?;
    scene.wait_for_stat(&counter, |now| now > count).await?;
    Ok(scene.envoy.log().split_off(length))
}

/// Sends an invalid configuration, and returns what Envoy logs of it.
async fn refused(scene: &Scene, config: &Value) -> Result<String> {
    send(scene, config, "update_rejected").await.with_context(|| format!("{config} is not refused"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_configuration_is_refused_with_the_fields_path_and_the_expected_value() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let es = |field: &str, value: Value| json!({"coordinator": "es", field: value});
    for (config, field, expected) in [
        (json!({}), ".", "missing field `coordinator`"),
        (es("hold", json!({"intervall": "1s"})), "hold.intervall", "unknown field `intervall`, expected one of"),
        (es("hold", json!({"interval": 50})), "hold.interval", "expected a duration"),
        (es("dispatch", json!([])), "dispatch", "expected an object"),
        (es("limits", json!({"memory": "2gb"})), "limits.memory", "at most 640mb"),
        (es("harmless_headers", json!(["b3", "authorization"])), "harmless_headers[1]", "never harmless"),
        (es("harmless_headers", json!([":path"])), "harmless_headers[0]", "pseudo-header"),
        (es("nodes", json!({"upstream": "es"})), "nodes", "a text with placeholders"),
    ] {
        let log = refused(&scene, &config).await?;
        assert!(log.contains(&format!("`{field}`")), "{config}: `{field}` is not in\n{log}");
        assert!(log.contains(expected), "{config}: {expected:?} is not in\n{log}");
    }
    send(&scene, &es("hold", json!({"interval": "20ms"})), "update_success").await?;
    Ok(())
}

/// The refused filter has the `vm_id` of the one that serves, and so its VM.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_configuration_costs_the_filter_in_the_same_vm_nothing() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let gate = scene.cluster.hold_if(|request| request.operations().is_ok_and(|operations| !operations.is_empty()));
    let held = scene.begin_bulk("/_bulk", &[], scene.cluster.write_books(0));
    scene.wait_for_operations(3).await?;
    refused(&scene, &json!({"coordinator": ["es"]})).await?;
    assert!(!held.is_there());
    gate.open();
    scene.cluster.check_books(0, &held.get().await?)?;
    scene.cluster.check_books(1, &scene.bulk("/_bulk", scene.cluster.write_books(1)).await?)?;
    assert_eq!(scene.cluster.bulks().len(), 6, "the second request was split by node too");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_does_not_start_with_an_invalid_configuration() -> Result<()> {
    // Its subject is the start of the process.
    let options = Scene::of(ClusterScript::three_nodes()).own_envoy().whole_config(json!({"coordinator": ["es"]}));
    let log = format!("{:#}", options.start_cold().await.expect_err("it started"));
    assert!(log.contains("configuration: `coordinator`") && log.contains("expected a string"), "{log}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_sent_with_state_queries_only_and_never_logged() -> Result<()> {
    let credentials = json!({"Authorization": "ApiKey s3cret", "x-second": "t0psecret"});
    let config = json!({"credentials": credentials, "cluster_state": {"refresh": "200ms"}});
    let scene = Scene::of(ClusterScript::three_nodes()).config(config).start().await?;
    let body = scene.cluster.write_books(0);
    scene.bulk("/_bulk", body.clone()).await?;
    scene.bulk_with("/_bulk", &[("authorization", "Basic bWU=")], body).await?;
    scene.bulk("/_bulk?format=yaml", scene.cluster.write_book(0, 0)?).await?;
    let queries = scene.cluster.wait_for_others("queries", |requests| requests.len() >= 2).await?;
    for query in &queries {
        assert!(query.target.starts_with("/_cluster/state/"), "{}", query.target);
        assert_eq!(query.header("authorization"), Some("ApiKey s3cret"));
        assert_eq!(query.header("x-second"), Some("t0psecret"));
        assert_eq!((query.header("accept"), query.body.len()), (Some("application/json"), 0));
    }
    let bulks = scene.cluster.bulks();
    assert_eq!(bulks.len(), 7);
    for bulk in &bulks {
        assert!(matches!(bulk.header("authorization"), None | Some("Basic bWU=")), "{bulk:?}");
        assert_eq!(bulk.header("x-second"), None);
    }
    let log = scene.envoy.log();
    assert!(!log.contains("s3cret") && !log.contains("t0psecret"), "{log}");
    assert!(log.contains("authorization"), "the log does not name the credentials' headers:\n{log}");
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_credentials_are_not_logged() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    for credentials in [json!("s3cret"), json!({"authorization": "s3cret\n"})] {
        let log = refused(&scene, &json!({"coordinator": "es", "credentials": credentials})).await?;
        assert!(log.contains("`credentials`"), "{log}");
        assert!(!log.contains("s3cret"), "{log}");
    }
    Ok(())
}
