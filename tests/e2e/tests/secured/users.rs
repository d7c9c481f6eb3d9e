//! Users with different rights, whose requests are merged, each get the answers that the nodes give them alone.

use bulk_reshuffle_e2e::{Item, lines};
use bulk_reshuffle_stack::Response;
use serde_json::{Value, json};

use crate::scene::{PASSWORD, SecuredScene, create_index};

/// The indices. A tenant may only use one of them.
const INDICES: [&str; 2] = ["users-red", "users-blue"];

const REQUESTS: usize = 10;

const OPERATIONS: usize = 12;

/// Requests are held, so that those of one user are merged.
fn held() -> Value {
    json!({"hold": {"early_release": false, "interval": "500ms"}})
}

/// Creates a user with the right to send bulk requests, and with these rights to the documents of these indices.
async fn user(scene: &SecuredScene, name: &str, indices: &[&str], actions: &[&str]) -> String {
    let actions: Vec<String> = actions.iter().map(|action| format!("indices:data/write/{action}")).collect();
    let role = json!({"cluster_permissions": ["indices:data/write/bulk"], "index_permissions": [
        {"index_patterns": indices, "allowed_actions": actions},
    ]});
    scene.administrator.role(name, &role).await.unwrap();
    scene.administrator.user(name, PASSWORD, &[name]).await.unwrap()
}

/// Creates the users: those that may index, those that may also delete, tenants, and one with no right to any index.
async fn users(scene: &SecuredScene) -> Vec<String> {
    let all = ["bulk*", "index", "delete", "update"];
    vec![
        user(scene, "indexer", &["users-*"], &["bulk*", "index"]).await,
        user(scene, "editor", &["users-*"], &all).await,
        user(scene, "red-tenant", &INDICES[..1], &all).await,
        user(scene, "blue-tenant", &INDICES[1..], &all).await,
        user(scene, "guest", &["other"], &all).await,
    ]
}

/// Returns a random body. Its documents belong to this request alone. One request in three has operations that some
/// users may not do: deletions of documents that do not exist, and updates.
fn body(random: &mut fastrand::Rng, request: &str) -> String {
    let is_plain = random.u8(..3) > 0;
    let one_index = INDICES[random.usize(..2)];
    let mut operation = |number: usize| {
        let index = if is_plain { one_index } else { INDICES[random.usize(..2)] };
        let id = format!("{request}-{number}");
        match random.u8(..6) {
            0 if !is_plain => lines::delete(index, &format!("{id}-none")),
            1 if !is_plain => lines::update(index, &format!("{id}-none"), 1),
            _ => lines::index(index, &id, number as u64),
        }
    };
    (0..OPERATIONS).map(&mut operation).collect()
}

/// Returns what must be equal in two answers: the status, and of each item what does not count up.
fn comparable(answer: &Response) -> (u16, Vec<Value>) {
    let items = Item::read_all(answer).unwrap_or_default().into_iter().map(|item| {
        let fields = ["_index", "_id", "status", "result", "error"].map(|name| (name, item.fields[name].clone()));
        json!([item.action, Vec::from(fields)])
    });
    (answer.status.as_u16(), items.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_user_gets_the_answers_that_the_nodes_give_that_user_alone() {
    let scene = SecuredScene::start("users", held()).await;
    for index in INDICES {
        create_index(&scene.administrator, index).await;
    }
    scene.wait_for_routing(INDICES[0]).await;
    scene.wait_for_routing(INDICES[1]).await;
    let users = users(&scene).await;
    let seed = fastrand::u64(..);
    let random = &mut fastrand::Rng::with_seed(seed);
    let numbers = (0..REQUESTS).flat_map(|number| users.iter().enumerate().map(move |(user, _)| (user, number)));
    let requests: Vec<(usize, String)> =
        numbers.map(|(user, number)| (user, body(random, &format!("{user}-{number}")))).collect();
    let mut expected = Vec::new();
    for (user, body) in &requests {
        // The second answer is for documents that exist, as that through the filter.
        scene.bulk_directly(&users[*user], body.clone()).await;
        expected.push(comparable(&scene.bulk_directly(&users[*user], body.clone()).await));
    }
    let before = (scene.merged().await, scene.counted("batches_total").await);
    let answers: Vec<_> = requests.iter().map(|(user, body)| scene.begin(&users[*user], body.clone())).collect();
    for ((answer, expected), (user, body)) in answers.into_iter().zip(expected).zip(&requests) {
        assert_eq!(comparable(&answer.await.unwrap()), expected, "user {user}, seed {seed}: {body}");
    }
    assert_eq!(scene.merged().await - before.0, requests.len() as u64);
    let [batches, separated] = [scene.counted("batches_total").await, scene.counted("batches_separated_total").await];
    println!("{} requests in {} batches, {separated} of which were separated", requests.len(), batches - before.1);
    assert!(separated > 0);
    scene.end(&users.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_without_the_right_to_it_fails_what_shares_its_shard_and_only_in_its_own_request() {
    const INDEX: &str = "shared-shard";
    let scene = SecuredScene::start("shared-shard", held()).await;
    create_index(&scene.administrator, INDEX).await;
    scene.wait_for_routing(INDEX).await;
    let writer = user(&scene, "writer", &[INDEX], &["bulk*", "index"]).await;
    let statuses =
        |answer: &Response| -> Vec<u64> { Item::read_all(answer).unwrap().iter().map(|item| item.status).collect() };
    // The same id, so the same shard.
    let (write, delete) = (lines::index(INDEX, "1", 1), lines::delete(INDEX, "1"));
    assert_eq!(statuses(&scene.bulk_directly(&writer, write.clone()).await), [201]);
    assert_eq!(statuses(&scene.bulk_directly(&writer, delete.clone()).await), [403]);
    assert_eq!(statuses(&scene.bulk_directly(&writer, write.clone() + &delete).await), [403, 403]);

    let batches = async || scene.counted("batches_total").await;
    let before = batches().await;
    let answers = [&write, &delete, &write].map(|body| scene.begin(&writer, body.clone()));
    let mut found = Vec::new();
    for answer in answers {
        found.push(statuses(&answer.await.unwrap()));
    }
    assert_eq!(found, [[200], [403], [200]]);
    assert_eq!(scene.counted("batches_separated_total").await, 1);
    // One with all requests, and one more for each request.
    assert_eq!(batches().await - before, 4);
    assert_eq!(statuses(&scene.bulk(&writer, write + &delete).await), [403, 403]);
    assert_eq!(batches().await - before, 5);
    scene.end(&[&writer]).await;
}
