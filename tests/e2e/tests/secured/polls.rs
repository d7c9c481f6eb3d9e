//! The filter's own user: its role, and its credentials.

use std::time::Duration;

use bulk_reshuffle_e2e::lines;
use bulk_reshuffle_stack::{Response, wait};
use serde_json::{Value, json};

use crate::scene::{PASSWORD, SecuredScene, create_index, role_of_page};

/// A limit far above the duration of any step here, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

const NO_STATE: &str = "requests_total.outcome.passed_through.reason.no_state";

/// Returns the role on the page without one of its permissions.
fn role_without(permission: &str) -> Value {
    let mut role = role_of_page();
    let mut removed = 0;
    for list in ["/cluster_permissions", "/index_permissions/0/allowed_actions"] {
        role.pointer_mut(list).unwrap().as_array_mut().unwrap().retain(|other| {
            removed += usize::from(other == permission);
            other != permission
        });
    }
    assert_eq!(removed, 1, "the role on the page has no {permission}");
    role
}

/// Starts a scene whose filter has a user with this role. In its cluster, there is an index with an alias.
async fn start(name: &str, role: &Value, cluster_state: Value) -> (SecuredScene, String) {
    let administrator = SecuredScene::administrator().await;
    administrator.role(name, role).await.unwrap();
    let user = administrator.user(name, PASSWORD, &[name]).await.unwrap();
    create_index(&administrator, name).await;
    administrator.put(&format!("/{name}/_alias/{name}-alias"), &json!({})).await.unwrap();
    let config = json!({"admin_path": "/_bulk_reshuffle", "cluster_state": cluster_state});
    (SecuredScene::start_as(name, &user, config).await, user)
}

/// Writes documents to an index and its alias through the filter, as a user with rights to them.
async fn write(scene: &SecuredScene, index: &str) -> Response {
    let body = lines::documents(index, 0..60) + &lines::documents(&format!("{index}-alias"), 60..120);
    let answer = scene.bulk(&scene.owner, body).await;
    assert_eq!(answer.json().unwrap()["errors"], json!(false), "{}", answer.text());
    answer
}

/// Returns the warnings about polls in Envoy's log, without those of the VM that only keeps the compiled module.
fn warnings(scene: &SecuredScene) -> String {
    let log = scene.envoy.log();
    let lines = log.lines().filter(|line| !line.contains(" kept: "));
    lines.filter(|line| line.contains("[warning]") && line.contains("cluster state: ")).collect()
}

/// Returns the outcomes of the checks of the nodes' upstreams.
async fn checks(scene: &SecuredScene) -> Vec<Value> {
    let status = scene.get("/_bulk_reshuffle/status").await;
    let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
    nodes.iter().map(|node| node["check"]["result"].clone()).collect()
}

async fn wait_for_checks(scene: &SecuredScene, result: &str) {
    let what = format!("each check is {result}");
    wait::until(LIMIT, &what, async || Ok((checks(scene).await == vec![json!(result); 3]).then_some(())))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_role_on_the_page_suffices() {
    let (scene, user) = start("sufficient", &role_of_page(), json!({"refresh": "200ms"})).await;
    scene.wait_for_routing("sufficient").await;
    scene.wait_for_routing("sufficient-alias").await;
    let before = scene.merged().await;
    write(&scene, "sufficient").await;
    assert_eq!(scene.merged().await, before + 1);
    wait_for_checks(&scene, "right").await;
    assert_eq!(warnings(&scene), "");
    scene.end(&[&user]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_the_state_or_the_aliases_requests_pass_through_and_the_log_says_why() {
    for (name, query, permission) in
        [("no-state", "version", "cluster:monitor/state"), ("no-aliases", "aliases", "indices:admin/aliases/get")]
    {
        let (scene, user) = start(name, &role_without(permission), json!({"refresh": "200ms"})).await;
        let errors = scene.counted("state_errors_total").await;
        scene.wait_for("state_errors_total", errors + 3).await;
        let before = (scene.counted(NO_STATE).await, scene.merged().await);
        write(&scene, name).await;
        assert_eq!((scene.counted(NO_STATE).await, scene.merged().await), (before.0 + 1, before.1), "{name}");
        assert_eq!(scene.documents(name).await, 120);
        let expected = format!(
            "cluster state: {query}: the cluster answered with status 403; give the user in `credentials` the privileges \
             in filter/README.md"
        );
        assert!(warnings(&scene).contains(&expected), "{}", warnings(&scene));
        scene.end(&[&user]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_the_nodes_requests_are_split_and_upstreams_are_not_checked() {
    let (scene, user) =
        start("no-nodes", &role_without("cluster:monitor/nodes/info"), json!({"refresh": "200ms"})).await;
    scene.wait_for_routing("no-nodes").await;
    scene.wait_for_routing("no-nodes-alias").await;
    let before = scene.merged().await;
    write(&scene, "no-nodes").await;
    assert_eq!(scene.merged().await, before + 1);
    assert_eq!(scene.documents("no-nodes").await, 120);
    wait_for_checks(&scene, "forbidden").await;
    let expected = "cluster state: nodes: the cluster answered with status 403; give the user in `credentials`";
    assert!(warnings(&scene).contains(expected), "{}", warnings(&scene));
    scene.end(&[&user]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_pass_through_while_the_filters_own_user_is_gone_and_are_split_when_it_is_back() {
    const NAME: &str = "expired";
    let cluster_state = json!({"refresh": "200ms", "timeout": "1s", "stale_after": "1s"});
    let (scene, user) = start(NAME, &role_of_page(), cluster_state).await;
    scene.wait_for_routing(NAME).await;
    scene.wait_for_routing(&format!("{NAME}-alias")).await;

    scene.administrator.remove_user(NAME).await.unwrap();
    wait::until(LIMIT, "requests pass through", async || {
        let before = scene.counted(NO_STATE).await;
        write(&scene, NAME).await;
        Ok((scene.counted(NO_STATE).await > before).then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(scene.documents(NAME).await, 120);
    // On a busy machine, polls without an answer may have come first.
    let expected = "the cluster answered with status 401; check the user and the password, or the API key, in";
    wait::until(LIMIT, expected, async || Ok(warnings(&scene).contains(expected).then_some(()))).await.unwrap();
    let status = scene.get("/_bulk_reshuffle/status").await.to_string();
    for shown in [user.split(' ').nth(1).unwrap(), PASSWORD] {
        assert!(!status.contains(shown), "the status shows {shown}");
    }

    scene.administrator.user(NAME, PASSWORD, &[NAME]).await.unwrap();
    scene.wait_for_routing(NAME).await;
    scene.end(&[&user]).await;
}
