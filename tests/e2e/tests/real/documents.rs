//! Requests for single documents, each sent directly to the nodes and through the filter, which turns it into an
//! operation of a batch.

use bytes::Bytes;
use hyper::{Method, Request};
use serde_json::{Value, json};

use crate::shared_scene::SharedScene;

/// A request to an index: its method, the path and query after the index, the content type, and the body.
#[derive(Clone)]
struct Sent {
    method: Method,
    path: String,
    content_type: Option<&'static str>,
    accept: Option<&'static str>,
    body: Vec<u8>,
}

impl Sent {
    fn new(method: Method, path: &str, body: impl Into<Vec<u8>>) -> Self {
        let content_type = (method != Method::DELETE).then_some("application/json");
        Self { method, path: path.to_owned(), content_type, accept: None, body: body.into() }
    }

    fn put(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new(Method::PUT, path, body)
    }

    fn post(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new(Method::POST, path, body)
    }

    fn delete(path: &str) -> Self {
        Self::new(Method::DELETE, path, "")
    }

    /// Sends the request to an index. Returns the answer without what may differ between two answers.
    async fn to(&self, scene: &SharedScene, url: &str, index: &str) -> String {
        let mut request = Request::builder().method(&self.method).uri(format!("{url}/{index}{}", self.path));
        if let Some(content_type) = self.content_type {
            request = request.header("content-type", content_type);
        }
        if let Some(accept) = self.accept {
            request = request.header("accept", accept);
        }
        let answer = scene.client.send(request.body(Bytes::from(self.body.clone())).unwrap()).await.unwrap();
        let headers = ["location", "content-type", "warning", "x-elastic-product"];
        let headers = headers.map(|name| answer.headers.get(name).map(|value| value.to_str().unwrap().to_owned()));
        let text = format!("{} {headers:?}\n{}", answer.status, String::from_utf8_lossy(&answer.body));
        without_chance(&text.replace(index, "INDEX"))
    }
}

/// Replaces sequence numbers, generated ids and the ids of indices.
fn without_chance(text: &str) -> String {
    // An error may quote the document of a single request, but not one of a bulk request.
    let mut text = text.replace(r#"source[{\"n\":1}]"#, "source[_na_]");
    let fields = ["_seq_no", "index_uuid", "shard"];
    let fields = fields.into_iter().flat_map(|name| [format!("\"{name}\":"), format!("\"{name}\" : ")]);
    for begin in fields.chain(["seqNo [", "_seq_no: "].map(str::to_owned)) {
        let mut parts = text.split(&begin);
        let first = parts.next().unwrap_or_default().to_owned();
        text = parts.fold(first, |text, part| text + &begin + part.trim_start_matches(|char| !",]}\n".contains(char)));
    }
    // Generated ids have 20 characters.
    let is_id =
        |part: &&str| part.len() == 20 && part.chars().all(|char| char.is_ascii_alphanumeric() || "-_".contains(char));
    let generated: Vec<String> = text.split(['"', '/', '?']).filter(is_id).map(str::to_owned).collect();
    generated.iter().fold(text, |text, id| text.replace(id, "GENERATED"))
}

/// Requests that join batches, in this order, on documents that they share.
fn merged() -> Vec<Sent> {
    let document = r#"{"n": 1, "text": "é"}"#;
    vec![
        Sent::put("/_doc/1", document),
        Sent::put("/_doc/1", document),
        Sent::post("/_doc/1", document),
        Sent::put("/_doc/2?refresh=true", document),
        Sent::put("/_doc/3?refresh=wait_for", document),
        Sent::put("/_doc/3?refresh=false&timeout=1m&wait_for_active_shards=1", document),
        Sent::post("/_doc", document),
        Sent::post("/_doc?op_type=index", document),
        Sent::post("/_doc?routing=a%20b+c", document),
        Sent::put("/_create/4", document),
        Sent::put("/_doc/5?op_type=create", document),
        Sent::put("/_doc/6?routing=here", document),
        Sent::put("/_doc/a%2Fb%20c%3F%22%C3%A9+~*'()?routing=x%26y", document),
        Sent::put("/_doc/7?version=7&version_type=external", document),
        Sent::put("/_doc/7?version=7&version_type=external_gte", document),
        Sent::put("/_doc/8?pretty", document),
        Sent::put("/_doc/8?pretty=false&human=true&error_trace=true&format=json", document),
        Sent::put("/_doc/8?filter_path=_id,_shards.total", document),
        Sent::put("/_doc/8?filter_path=none", document),
        Sent::put("/_doc/9?pipeline=_none", document),
        Sent::put("/_doc/10?require_alias=false", document),
        Sent::put("/_doc/11", " {\"n\":1} "),
        Sent::put("/_doc/12", format!(r#"{{"text": "{}"}}"#, "x".repeat(100_000))),
        Sent::post("/_update/12", r#"{"doc": {"n": 2, "text": "é"}}"#),
        Sent::post("/_update/12", r#"{"doc": {"n": 2}}"#),
        Sent::post("/_update/12?refresh=true", r#"{"doc": {"n": 2}}"#),
        Sent::post("/_update/12?refresh=true", r#"{"doc": {"n": 3}}"#),
        Sent::post("/_update/12?refresh=wait_for&retry_on_conflict=3", r#"{"doc": {"n": 4}}"#),
        Sent::post("/_update/12?timeout=1m", r#"{"doc": {"n": 4}, "detect_noop": false}"#),
        Sent::post("/_update/12?require_alias=false&pretty", r#"{"doc": {"n": 4}}"#),
        Sent::post("/_update/12?filter_path=result,_shards", r#"{"doc": {"n": 4}}"#),
        Sent::post("/_update/13", r#"{"doc": {"n": 1}, "doc_as_upsert": true}"#),
        Sent::post("/_update/14%20b", r#"{"doc": {"n": 1}, "upsert": {"n": 7.0, "text": "\u00e9"}}"#),
        Sent::delete("/_doc/1"),
        Sent::delete("/_doc/1"),
        Sent::delete("/_doc/6?routing=here&refresh=true"),
        Sent::delete("/_doc/7?version=9&version_type=external"),
    ]
}

/// Requests that only some releases accept.
fn versioned() -> Vec<Sent> {
    let document = r#"{"n": 1}"#;
    let of = |accept, sent: Sent| {
        let content_type = sent.content_type.map(|_| accept);
        [Sent { accept: Some(accept), ..sent.clone() }, Sent { accept: Some(accept), content_type, ..sent }]
    };
    let types = [
        "application/vnd.elasticsearch+json;compatible-with=8",
        "application/vnd.elasticsearch+json; compatible-with=9",
        "application/vnd.elasticsearch+json; compatible-with=8,text/plain",
        "application/json, text/plain",
        "application/json,*/*",
        "*/*",
    ];
    types
        .into_iter()
        .flat_map(|accept| [of(accept, Sent::put("/_doc/v", document)), of(accept, Sent::delete("/_doc/v"))])
        .flatten()
        .collect()
}

/// Requests that nodes refuse in a batch.
fn refused() -> Vec<Sent> {
    let document = r#"{"n":1}"#;
    vec![
        Sent::put("/_create/1", document),
        Sent::put("/_create/1", document),
        Sent::put("/_create/1?pretty", document),
        Sent::put("/_doc/1?op_type=create&filter_path=status", document),
        Sent::put("/_doc/1?if_seq_no=999&if_primary_term=1", document),
        Sent::put("/_doc/2?if_seq_no=0&if_primary_term=1", document),
        Sent::delete("/_doc/1?if_seq_no=999&if_primary_term=1"),
        Sent::put("/_doc/3", r#"{"n":"many"}"#),
        Sent::put("/_doc/3", r#"{"n":1,"n":2}"#),
        Sent::put("/_doc/3", r#"{"n":"#),
        Sent::put("/_doc/3", "[1]"),
        Sent::put("/_doc/3", "1"),
        Sent::put("/_doc/3", r#"{"n":1} {"n":2}"#),
        Sent::put("/_doc/3", b"{\"text\":\"\xff\"}".to_vec()),
        Sent::put("/_doc/3?require_alias=true", document),
        Sent::put("/_doc/3?pipeline=none", document),
        Sent::put("/_doc/3?wait_for_active_shards=5&timeout=10ms", document),
        Sent::post("/_update/absent", r#"{"doc":{"n":1}}"#),
        Sent::post("/_update/1", r#"{"doc":{"n":"many"}}"#),
        Sent::post("/_update/1?if_seq_no=999&if_primary_term=1", r#"{"doc":{"n":1}}"#),
        Sent::post("/_update/1?require_alias=true", r#"{"doc":{"n":1}}"#),
        Sent::put("/_doc/3?refresh=banana", document),
        Sent::put("/_doc/3?wait_for_active_shards=many", document),
    ]
}

/// Requests that pass through.
fn passed() -> Vec<Sent> {
    let document = r#"{"n":1}"#;
    vec![
        Sent::put("/_doc/1", "{\n}"),
        Sent::put("/_doc/1", "{}\n"),
        Sent::put("/_doc/1", "{}\r"),
        Sent::put("/_doc/1", ""),
        Sent::put("/_doc/1", "{}\n{\"delete\":{\"_id\":\"1\"}}\n"),
        Sent { body: b"{}".to_vec(), ..Sent::delete("/_doc/1") },
        Sent::put("/_doc/1?unknown=1", document),
        Sent::put("/_doc/1?routing=a&routing=b", document),
        Sent::put("/_doc/1?op_type=banana", document),
        Sent::put("/_create/1?op_type=index", document),
        Sent::put("/_doc/1?version=3", document),
        Sent::put("/_doc/1?version=-1", document),
        Sent::put("/_doc/1?if_seq_no=3", document),
        Sent::put("/_doc/1?list_executed_pipelines=true", document),
        Sent::put("/_doc/1?format=yaml", document),
        Sent::put("/_doc/%FF", document),
        Sent::put("/_doc/1/", document),
        Sent::put(&format!("/_doc/{}", "x".repeat(513)), document),
        Sent::put("/_update/1", r#"{"doc":{}}"#),
        Sent::post("/_update/1", r#"{"script":{"source":"ctx._source.n = 1"}}"#),
        Sent::post("/_update/1", r#"{"doc":{"n":1},"_source":true}"#),
        Sent::post("/_update/1", "{\"doc\":{\"n\":1}}\n"),
        Sent::post("/_update/1", "{}"),
        Sent::post("/_update/1", r#"{"doc":"#),
        Sent::post("/_update/1?_source=n", r#"{"doc":{"n":1}}"#),
        Sent::post("/_update/1?routing=a", r#"{"doc":{"n":1},"doc_as_upsert":true}"#),
        Sent::post("/_update/1?wait_for_active_shards=1", r#"{"doc":{"n":1}}"#),
        Sent::post("/_update/1?retry_on_conflict=1&if_seq_no=1&if_primary_term=1", r#"{"doc":{"n":1}}"#),
        Sent { content_type: Some("application/yaml"), ..Sent::put("/_doc/1", "n: 1") },
        Sent { content_type: Some("application/x-ndjson"), ..Sent::put("/_doc/1", document) },
        Sent { content_type: Some("text/plain"), ..Sent::put("/_doc/1", document) },
        Sent { content_type: None, ..Sent::put("/_doc/1", document) },
    ]
}

const INDICES: [&str; 4] = ["single-0", "single-1", "single-2", "single-f"];

async fn scene(name: &str) -> SharedScene {
    let scene = SharedScene::start_with(name, json!({"single_documents": true})).await;
    for index in INDICES {
        scene.index(index, json!({"refresh_interval": "100ms"})).await;
    }
    scene
}

/// Sends requests one after the other directly to each node, and through the filter, each time to another index. The
/// filter's answer must equal that of one of the nodes. Returns how many requests were merged, and how many of them were
/// refused in their batch.
async fn compare(scene: &SharedScene, requests: Vec<Sent>) -> (u64, u64) {
    let counted = async || [scene.merged().await, scene.counted("single_documents_total.outcome.refused").await];
    let before = counted().await;
    for sent in requests {
        let mut direct = Vec::new();
        for (node, index) in INDICES.iter().take(3).enumerate() {
            direct.push(sent.to(scene, &scene.direct(node, ""), index).await);
        }
        let filtered = sent.to(scene, &scene.envoy.url(""), INDICES[3]).await;
        let Sent { method, path, body, accept, .. } = &sent;
        let body = String::from_utf8_lossy(&body[..body.len().min(100)]);
        assert!(direct.contains(&filtered), "{method} {path} {accept:?} {body}\n{filtered}\ndirectly:\n{}", direct[0]);
    }
    let after = counted().await;
    (after[0] - before[0], after[1] - before[1])
}

/// Returns the documents of an index, as they are stored.
async fn documents(scene: &SharedScene, index: &str) -> Vec<String> {
    scene.documents(index).await;
    let found = scene.get(&format!("/{index}/_search?size=100&version=true&_source=true")).await;
    let hit = |hit: &Value| {
        let id = hit["_id"].as_str().unwrap();
        let id = if id.len() == 20 { "GENERATED" } else { id };
        format!("{id} {} {} {}", hit["_version"], hit["_routing"], hit["_source"])
    };
    let mut hits: Vec<String> = found["hits"]["hits"].as_array().unwrap().iter().map(hit).collect();
    hits.sort();
    hits
}

#[tokio::test(flavor = "multi_thread")]
async fn single_documents_get_the_same_answers_as_from_the_cluster() {
    let scene = scene("documents").await;
    let count = merged().len() as u64;
    assert_eq!(compare(&scene, merged()).await, (count, 0));
    let (merged, refused) = compare(&scene, refused()).await;
    assert!(refused >= 10 && merged >= refused, "{merged} merged, {refused} refused");
    compare(&scene, versioned()).await;
    assert_eq!(compare(&scene, passed()).await, (0, 0));
    assert_eq!(documents(&scene, INDICES[3]).await, documents(&scene, INDICES[0]).await);
    scene.end().await;
}
