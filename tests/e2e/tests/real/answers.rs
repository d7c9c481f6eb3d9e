use bytes::Bytes;
use serde_json::{Value, json};

use crate::shared_scene::SharedScene;

/// Returns an answer without the parts that may differ between two answers to the same request: times, sequence
/// numbers, generated ids, and the name of the index.
fn comparable(text: &[u8], index: &str) -> Value {
    let text = without_source(&String::from_utf8_lossy(text).replace(index, "INDEX"));
    let Ok(mut value) = serde_json::from_str::<Value>(&text) else { return Value::String(text) };
    blur(&mut value);
    value
}

/// Returns the text without the quotes in errors of Elasticsearch 7's JSON parser, which contain the request as it
/// arrived, with its headers.
pub fn without_source(text: &str) -> String {
    let (start, end) = ("[Source: (byte[])", "; line: ");
    let mut parts = text.split(start);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + start + part.find(end).map_or("", |at| &part[at..]))
}

fn blur(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for key in ["took", "ingest_took", "_seq_no", "index_uuid", "shard"] {
                if let Some(field) = fields.get_mut(key) {
                    *field = json!("any");
                }
            }
            if let Some(Value::String(id)) = fields.get_mut("_id")
                && id.len() == 20
            {
                *id = "generated".to_owned();
            }
            fields.values_mut().for_each(blur);
        }
        Value::Array(values) => values.iter_mut().for_each(blur),
        // Conflicts name sequence numbers in their reasons.
        Value::String(text) if text.contains("seqNo") => *text = "a conflict".to_owned(),
        _ => {}
    }
}

impl SharedScene {
    /// Sends a body directly to each node, and through the filter, each time to a different index. The filter's answer
    /// must equal that of one of the nodes (an error reads differently after it has crossed between nodes), and the
    /// indices must have the same documents.
    async fn compare(&self, name: &str, query: &str, body: &[u8]) {
        let mut direct = Vec::new();
        for (node, index) in ["odd-0", "odd-1", "odd-2"].into_iter().enumerate() {
            direct.push(self.answer(index, &self.direct(node, &format!("/{index}/_bulk{query}")), body).await);
        }
        let filtered = self.answer("odd-f", &self.envoy.url(&format!("/odd-f/_bulk{query}")), body).await;
        assert!(direct.contains(&filtered), "{name}:\n{filtered:#?}\ndirectly:\n{:#?}", direct[0]);
    }

    async fn answer(&self, index: &str, url: &str, body: &[u8]) -> (u16, Value, Value) {
        let answer = self.client.post_ndjson(url, Bytes::copy_from_slice(body)).await.unwrap();
        (answer.status.as_u16(), comparable(&answer.body, index), self.all_documents(index).await)
    }

    async fn all_documents(&self, index: &str) -> Value {
        self.documents(index).await;
        let found = self.get(&format!("/{index}/_search?size=1000&version=true&_source=true")).await;
        let mut hits = found["hits"]["hits"].as_array().unwrap().clone();
        for hit in &mut hits {
            hit["_index"] = json!("INDEX");
            blur(hit);
        }
        hits.sort_by_key(Value::to_string);
        json!(hits)
    }
}

/// A valid operation, which precedes every odd one.
const GOOD: &str = "{\"index\":{\"_id\":\"good\"}}\n{\"n\":1}\n";

fn odd_bodies() -> Vec<(&'static str, Vec<u8>)> {
    let after_good = |rest: &str| [GOOD.as_bytes(), rest.as_bytes()].concat();
    let line_of = |length: usize| {
        let id = "x".repeat(length);
        after_good(&format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{{\"n\":1}}\n"))
    };
    let mut odd = vec![
        ("no final newline", after_good("{\"index\":{\"_id\":\"a\"}}\n{\"n\":1}")),
        ("a malformed action line", after_good("{\"index\":{\"_id\":\"a\"}\n{\"n\":1}\n")),
        ("an action line that is not JSON", after_good("index a\n{\"n\":1}\n")),
        ("an empty object", after_good("{}\n{\"n\":1}\n")),
        ("an unknown action", after_good("{\"upsert\":{\"_id\":\"a\"}}\n{\"n\":1}\n")),
        ("an unknown parameter", after_good("{\"index\":{\"_id\":\"a\",\"colour\":\"red\"}}\n{\"n\":1}\n")),
        ("a type", after_good("{\"index\":{\"_id\":\"a\",\"_type\":\"_doc\"}}\n{\"n\":1}\n")),
        ("a delete without id", after_good("{\"delete\":{}}\n")),
        ("an update without id", after_good("{\"update\":{}}\n{\"doc\":{}}\n")),
        ("an empty body", Vec::new()),
        ("only a newline", b"\n".to_vec()),
        ("an id of 512 bytes", line_of(512)),
        ("an id of 513 bytes", line_of(513)),
        ("an action line of 1 MB", line_of(1 << 20)),
        ("an empty id", after_good("{\"index\":{\"_id\":\"\"}}\n{\"n\":1}\n")),
        ("a null id", after_good("{\"index\":{\"_id\":null}}\n{\"n\":1}\n")),
        ("nulls as Logstash writes them", after_good("{\"index\":{\"_id\":null,\"routing\":null}}\n{\"n\":1}\n")),
        ("a null routing value", after_good("{\"index\":{\"_id\":\"a\",\"routing\":null}}\n{\"n\":1}\n")),
        ("a delete with a null routing value", after_good("{\"delete\":{\"_id\":\"good\",\"routing\":null}}\n")),
        ("a delete with a null id", after_good("{\"delete\":{\"_id\":null}}\n")),
        ("a numeric id", after_good("{\"index\":{\"_id\":17}}\n{\"n\":1}\n")),
        ("a numeric routing value", after_good("{\"index\":{\"_id\":\"r\",\"routing\":17}}\n{\"n\":1}\n")),
        ("no id", after_good("{\"index\":{}}\n{\"n\":1}\n")),
        (
            "two actions in an object",
            after_good("{\"index\":{\"_id\":\"a\"},\"delete\":{\"_id\":\"good\"}}\n{\"n\":1}\n"),
        ),
        ("text after the action", after_good("{\"index\":{\"_id\":\"a\"}} x\n{\"n\":1}\n")),
        ("spaces after the action", after_good("{\"index\":{\"_id\":\"a\"}}   \n{\"n\":1}\n")),
        ("CRLF line ends", after_good("{\"index\":{\"_id\":\"a\"}}\r\n{\"n\":1}\r\n{\"delete\":{\"_id\":\"b\"}}\r\n")),
        ("a blank line", after_good("\n{\"index\":{\"_id\":\"a\"}}\n{\"n\":1}\n")),
        ("a malformed document", after_good("{\"index\":{\"_id\":\"a\"}}\n{\"n\":\n")),
        ("a document that does not fit the mapping", after_good("{\"index\":{\"_id\":\"a\"}}\n{\"n\":\"many\"}\n")),
        ("a document that is not an object", after_good("{\"index\":{\"_id\":\"a\"}}\n[1]\n")),
        ("an empty document", after_good("{\"index\":{\"_id\":\"a\"}}\n\n")),
        ("NUL in a document", after_good("{\"index\":{\"_id\":\"a\"}}\n{\"n\":1\0}\n")),
        ("NUL in an action line", after_good("{\"index\":{\"_id\":\"a\0\"}}\n{\"n\":1}\n")),
        ("a body that ends after an action line", after_good("{\"index\":{\"_id\":\"a\"}}\n")),
        ("a body that ends in an action line", after_good("{\"index\":{\"_i")),
        ("a body that ends in a document", after_good("{\"index\":{\"_id\":\"a\"}}\n{\"n\"")),
        ("an update that is not an object", after_good("{\"update\":{\"_id\":\"good\"}}\n[]\n")),
        ("an update with an unknown field", after_good("{\"update\":{\"_id\":\"good\"}}\n{\"docs\":{}}\n")),
        (
            "an update with a duplicate key",
            after_good("{\"update\":{\"_id\":\"good\"}}\n{\"doc\":{\"n\":1,\"n\":2}}\n"),
        ),
        ("an update of a missing document", after_good("{\"update\":{\"_id\":\"nothing\"}}\n{\"doc\":{\"n\":1}}\n")),
        ("a missing pipeline", after_good("{\"index\":{\"_id\":\"a\",\"pipeline\":\"none\"}}\n{\"n\":1}\n")),
        (
            "an external version",
            after_good("{\"index\":{\"_id\":\"v\",\"version\":7,\"version_type\":\"external\"}}\n{\"n\":1}\n"),
        ),
        ("another index", after_good("{\"index\":{\"_index\":\"Not Valid\",\"_id\":\"a\"}}\n{\"n\":1}\n")),
    ];
    let invalid: [(_, &[u8]); 2] = [
        ("invalid UTF-8 in an action line", b"{\"index\":{\"_id\":\"\xff\xfe\"}}\n{\"n\":1}\n"),
        ("invalid UTF-8 in a document", b"{\"index\":{\"_id\":\"u\"}}\n{\"text\":\"\xff\xfe\"}\n"),
    ];
    odd.extend(invalid.map(|(name, rest)| (name, [GOOD.as_bytes(), rest].concat())));
    odd
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_requests_get_the_same_answer_as_from_the_cluster() {
    let scene = SharedScene::start("odd").await;
    for index in ["odd-0", "odd-1", "odd-2", "odd-f"] {
        scene.index(index, json!({})).await;
    }
    for (name, body) in odd_bodies() {
        scene.compare(name, "", &body).await;
    }
    for query in [
        "/",
        "/?refresh=false",
        "?refresh=banana",
        "?unknown=1",
        "?pipeline=none",
        "?routing=here",
        "?filter_path=items.*.status",
        "?pretty",
    ] {
        scene.compare(query, query, GOOD.as_bytes()).await;
    }
    scene.end().await;
}

/// Since release 2.16, OpenSearch then fails all documents of the index. Elasticsearch fails only this one.
#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_document_under_a_pipeline_fails_the_same_documents_as_without_the_filter() {
    let scene = SharedScene::start("malformed").await;
    let pipeline = json!({"processors": [{"set": {"field": "text", "value": "changed"}}]});
    scene.put("/_ingest/pipeline/change", &pipeline).await;
    for index in ["changed-d", "changed-f"] {
        scene.index(index, json!({"default_pipeline": "change"})).await;
    }
    let good: String = (0..12).map(|n| format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n}}}\n")).collect();
    let body = good + "{\"index\":{\"_id\":\"bad\"}}\n{\"n\":\n";
    let direct = scene.answer("changed-d", &scene.direct(0, "/changed-d/_bulk"), body.as_bytes()).await;
    let filtered = scene.answer("changed-f", &scene.envoy.url("/changed-f/_bulk"), body.as_bytes()).await;
    assert_eq!(filtered, direct);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_actions_leave_the_same_documents_as_without_the_filter() {
    let scene = SharedScene::start("actions").await;
    for index in ["odd-c", "odd-d"] {
        scene.index(index, json!({})).await;
    }
    // A fixed random sequence, so that a failure is reproducible.
    let mut rng = fastrand::Rng::with_seed(7);
    for round in 0..20 {
        let mut body = String::new();
        for n in 0..100 {
            let id = rng.u8(..40);
            body += &match rng.u8(..5) {
                0 => format!("{{\"delete\":{{\"_id\":\"{id}\"}}}}\n"),
                1 => format!("{{\"create\":{{\"_id\":\"{id}\"}}}}\n{{\"n\":{n}}}\n"),
                2 => format!("{{\"update\":{{\"_id\":\"{id}\"}}}}\n{{\"doc\":{{\"text\":\"{round}\"}}}}\n"),
                3 => format!("{{\"update\":{{\"_id\":\"{id}\"}}}}\n{{\"doc\":{{\"n\":{n}}},\"doc_as_upsert\":true}}\n"),
                _ => format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{{\"n\":{n}}}\n"),
            };
        }
        let direct = scene.client.post_ndjson(&scene.direct(round, "/odd-c/_bulk"), body.clone()).await.unwrap();
        let routed = scene.client.post_ndjson(&scene.envoy.url("/odd-d/_bulk"), body).await.unwrap();
        assert_eq!(comparable(&direct.body, "odd-c"), comparable(&routed.body, "odd-d"), "round {round}");
        for header in ["content-type", "warning", "x-elastic-product"] {
            assert_eq!(direct.headers.get(header), routed.headers.get(header), "{header}");
        }
    }
    assert_eq!(scene.all_documents("odd-c").await, scene.all_documents("odd-d").await);
    scene.end().await;
}
