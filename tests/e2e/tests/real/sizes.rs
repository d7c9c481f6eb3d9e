use std::time::Duration;

use serde_json::{Value, json};

use crate::shared_scene::SharedScene;

/// Returns a body of about this many bytes, and the number of its documents.
fn body(index: &str, bytes: usize, document: usize) -> (String, usize) {
    let text = "x".repeat(document);
    let mut body = String::with_capacity(bytes);
    let mut documents = 0;
    while body.len() + document + 200 < bytes {
        body += &format!(
            "{{\"index\":{{\"_index\":\"{index}\",\"_id\":\"{documents}\"}}}}\n{{\"n\":1,\"text\":\"{text}\"}}\n"
        );
        documents += 1;
    }
    (body, documents)
}

fn assert_items(answer: &Value, documents: usize) {
    assert_eq!(answer["errors"], false);
    let items = answer["items"].as_array().unwrap();
    assert_eq!(items.len(), documents);
    for (n, item) in items.iter().enumerate() {
        assert_eq!(item["index"]["_id"], n.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_100_mb_is_split_and_answered() {
    let scene = SharedScene::start("large").await;
    scene.index("large", json!({})).await;
    let before = scene.merged().await;
    let (body, documents) = body("large", 100 << 20, 20_000);
    assert!(body.len() > 99 << 20);
    let client = scene.client.with_timeout(Duration::from_secs(240));
    let answer = client.post_ndjson(&scene.envoy.url("/_bulk"), body).await.unwrap().ok().unwrap();
    assert_items(&answer.json().unwrap(), documents);
    assert_eq!(scene.merged().await, before + 1);
    assert_eq!(scene.documents("large").await, documents as u64);
    scene.client.delete(&scene.direct(0, "/large")).await.unwrap();
    scene.end().await;
}
