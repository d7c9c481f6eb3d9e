//! Users whose passwords are wrong, and users that lose their rights while their requests are held.

use bulk_reshuffle_e2e::{basic, lines};
use bulk_reshuffle_stack::Response;
use serde_json::{Value, json};

use crate::scene::{PASSWORD, SecuredScene, create_index};

/// Requests are held for much longer than a change of a user takes.
fn held() -> Value {
    json!({"hold": {"early_release": false, "interval": "3s"}})
}

/// Returns a role that may do all this with the documents of an index.
fn role(index: &str, actions: &[&str]) -> Value {
    json!({"cluster_permissions": ["indices:data/write/bulk"], "index_permissions": [
        {"index_patterns": [index], "allowed_actions": actions},
    ]})
}

/// Starts a scene with an index, and with a user of the same name that may index documents in it.
async fn start(name: &str, config: Value) -> (SecuredScene, String) {
    let scene = SecuredScene::start(name, config).await;
    create_index(&scene.administrator, name).await;
    scene.wait_for_routing(name).await;
    scene.administrator.role(name, &role(name, &["indices:data/write/*"])).await.unwrap();
    let user = scene.administrator.user(name, PASSWORD, &[name]).await.unwrap();
    (scene, user)
}

/// Returns a body with operations on all shards.
fn body(index: &str) -> String {
    lines::documents(index, 0..60)
}

/// Returns the status, the challenge and the text of an answer, without the time that it took.
fn comparable(answer: &Response) -> (u16, Option<String>, String) {
    let challenge = answer.headers.get("www-authenticate").map(|value| value.to_str().unwrap().to_owned());
    let text = answer.text();
    let text = text.split_once(r#","errors":"#).map_or(text.as_str(), |(_, rest)| rest).to_owned();
    (answer.status.as_u16(), challenge, text)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_an_unknown_user_get_the_nodes_own_answer() {
    let (scene, user) = start("strangers", json!({})).await;
    let strangers = [basic("strangers", "not-the-passw0rd"), basic("mallory", PASSWORD)];
    for stranger in &strangers {
        let before = scene.merged().await;
        let answer = scene.bulk(stranger, body("strangers")).await;
        assert_eq!(comparable(&answer), comparable(&scene.bulk_directly(stranger, body("strangers")).await));
        assert_eq!((answer.status.as_u16(), answer.text().as_str()), (401, "Unauthorized"));
        assert_eq!(scene.merged().await, before + 1, "the filter did not answer itself");
    }
    assert_eq!(scene.bulk(&user, body("strangers")).await.status, 200);
    scene.end(&[&user, &strangers[0], &strangers[1]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_is_removed_while_a_request_is_held_gets_the_nodes_own_answer() {
    let (scene, user) = start("removed", held()).await;
    assert_eq!(scene.bulk_directly(&user, body("removed")).await.status, 200);
    let before = scene.counted("operations_total").await;
    let answer = scene.begin(&user, body("removed"));
    scene.wait_for("operations_total", before + 60).await;
    scene.administrator.remove_user("removed").await.unwrap();
    assert!(!answer.is_finished(), "the request was not held for long enough");
    let answer = answer.await.unwrap();
    assert_eq!(answer.status, 401);
    assert_eq!(comparable(&answer), comparable(&scene.bulk_directly(&user, body("removed")).await));
    scene.end(&[&user]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_taken_away_while_requests_are_held_is_missing_in_each_of_them() {
    const NAME: &str = "demoted";
    let (scene, user) = start(NAME, held()).await;
    assert_eq!(scene.bulk_directly(&user, body(NAME)).await.status, 200);
    let before = scene.counted("operations_total").await;
    let answers = [0, 1].map(|_| scene.begin(&user, body(NAME)));
    scene.wait_for("operations_total", before + 120).await;
    let less = role(NAME, &["indices:data/write/bulk*", "indices:data/write/delete"]);
    scene.administrator.role(NAME, &less).await.unwrap();
    assert!(!answers.iter().any(|answer| answer.is_finished()), "the requests were not held for long enough");
    let expected = comparable(&scene.bulk_directly(&user, body(NAME)).await);
    assert_eq!(expected.2.matches(r#""status":403"#).count(), 60, "{}", expected.2);
    for answer in answers {
        assert_eq!(comparable(&answer.await.unwrap()), expected);
    }
    scene.end(&[&user]).await;
}
