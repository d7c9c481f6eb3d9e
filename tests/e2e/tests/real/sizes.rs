use std::time::Duration;

use bulk_reshuffle_stack::wait;
use serde_json::{Value, json};

use crate::site::Site;

/// A body of about this many bytes, and the number of its documents.
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
    let site = Site::start("large").await;
    site.index("large", json!({})).await;
    let merged = "wasmcustom.bulk_reshuffle_requests_merged_total";
    let before = site.counter(merged).await;
    let (body, documents) = body("large", 100 << 20, 20_000);
    assert!(body.len() > 99 << 20);
    let client = site.client.with_timeout(Duration::from_secs(240));
    let answer = client.post_ndjson(&site.envoy.url("/_bulk"), body).await.unwrap().ok().unwrap();
    assert_items(&answer.json().unwrap(), documents);
    assert_eq!(site.counter(merged).await, before + 1);
    assert_eq!(site.documents("large").await, documents as u64);
    site.client.delete(&site.direct(0, "/large")).await.unwrap();
    site.end().await;
}

/// An Envoy that gets no CPU for a while finds more in its sockets at once than its buffers are meant for.
#[tokio::test(flavor = "multi_thread")]
async fn a_starved_envoy_does_not_answer_413() {
    let site = Site::start("starved").await;
    site.index("starved", json!({})).await;
    let (body, documents) = body("starved", 3 << 20, 2_000);
    for _ in 0..25 {
        let (client, url, body) = (site.client.clone(), site.envoy.url("/_bulk"), body.clone());
        let request = tokio::spawn(async move { client.post_ndjson(&url, body).await });
        wait::until(Duration::from_secs(60), "the request does not end", async || {
            site.envoy.pause()?;
            // Not a wait for anything: the length of the starvation is the subject.
            tokio::time::sleep(Duration::from_millis(100)).await;
            site.envoy.resume()?;
            Ok(request.is_finished().then_some(()))
        })
        .await
        .unwrap();
        assert_items(&request.await.unwrap().unwrap().ok().unwrap().json().unwrap(), documents);
    }
    site.end().await;
}
