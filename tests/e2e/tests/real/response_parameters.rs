use serde_json::json;

use crate::answers::without_source;
use crate::shared_scene::SharedScene;

/// Queries that the filter applies itself.
const FILTERED: &[&str] = &[
    // As Logstash and Beats send it.
    "filter_path=errors,items.*.error,items.*.status",
    "filter_path=errors%2Citems.*.error.type%2Citems.*.error.reason",
    "filter_path=",
    "filter_path",
    "filter_path=,",
    "filter_path=errors",
    "filter_path=took",
    "filter_path=items",
    "filter_path=items.*",
    "filter_path=items.*.*",
    "filter_path=items.**",
    "filter_path=items.*.error",
    "filter_path=items.*.error.*",
    "filter_path=items.*.error.**",
    "filter_path=items.*.status",
    "filter_path=items.*._id,errors",
    "filter_path=items.index.status",
    "filter_path=items.index",
    "filter_path=items.*._shards.*",
    "filter_path=items.*.error.type",
    "filter_path=items.**.reason",
    "filter_path=**.type",
    "filter_path=**._id",
    "filter_path=**.**.status",
    "filter_path=**.error.**",
    "filter_path=**.caused_by.reason",
    "filter_path=**",
    "filter_path=*",
    "filter_path=*.index._id",
    "filter_path=it*",
    "filter_path=i*s.in*x.st*us",
    "filter_path=*s",
    "filter_path=unknown",
    "filter_path=errors.*,items.0,ITEMS,items.*.stat?s",
    "filter_path=errors,errors",
    "filter_path=errors,%20items.*._id",
    "filter_path=err%6frs",
    "filter_path=%C3%A9,errors",
    "filter_path=-items",
    "filter_path=-took,-errors",
    "filter_path=-*",
    "filter_path=-unknown",
    "filter_path=-items.index",
    "filter_path=-items.*.*",
    "filter_path=-items.*.error",
    "filter_path=items.*.*,-items.*._shards",
    "filter_path=items.*.error.type,-items.*.error",
    "filter_path=items,-*.*._s*",
    "human",
    "human=true&filter_path=errors",
    "error_trace",
    "error_trace=true&format=json",
    "pretty=false",
    "pretty",
    "pretty=&refresh=true",
    "pretty=true&human&error_trace",
    "format=json&pretty&filter_path=errors",
    "pretty&filter_path=items.*.error.type",
    "pretty=false&filter_path=took",
    "filter_path=unknown&pretty",
];

/// Queries that make a request pass through.
const PASSED: &[&str] = &[
    "pretty=banana",
    "pretty&pretty",
    "pretty=true&pretty=false",
    "prett%79",
    "format=yaml",
    "format=yaml&pretty",
    "human=banana",
    "filter_path=-",
    "filter_path=--errors",
    "filter_path=-%20errors",
    "filter_path=errors,%20-took",
    "filter_path=errors.",
    "filter_path=.errors",
    "filter_path=items..status",
    "filter_path=items.***.type",
    "filter_path=it**s",
    "filter_path=items.*.%5C_id",
    "filter_path=err+ors",
    "filter_path=%zz",
    "filter_path=errors&filter_path=took",
    "filter_path=-**.reason",
    "filter_path=-took,-items.**.failed",
    "filter_path=-items.*._shards.total",
];

/// Returns bodies with all outcomes of operations, for one node and for all nodes.
fn bodies() -> Vec<String> {
    let index = |id: &str, n: &str| format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{{\"n\":{n}}}\n");
    let update = "{\"update\":{\"_id\":\"missing\"}}\n{\"doc\":{\"n\":1}}\n".to_owned();
    let conflict = "{\"create\":{\"_id\":\"0\"}}\n{\"n\":1}\n";
    let delete = "{\"delete\":{\"_id\":\"nothing\"}}\n";
    // Characters that JSON must or may escape, or that are outside the basic plane, in ids and in reasons.
    let odd = "\\u0001\\u007f\\t\\\"\\\\/\\/é\\u0085\\u2028🙂\\ud83d\\ude42</x>";
    let odd = index(odd, "1") + &index(&format!("{odd}b"), &format!("\"{odd}\""));
    let good: String = (0..12).map(|id| index(&id.to_string(), "1")).collect();
    let bad: String = (0..12).map(|id| index(&format!("bad {id}"), "\"many\"")).collect();
    vec![
        index("0", "1"),
        index("bad", "\"many\""),
        update.clone(),
        good.clone(),
        bad.clone(),
        [&good, conflict, &update, &bad, delete, &odd].concat(),
    ]
}

impl SharedScene {
    /// Sends a body to one index at a node, and to another one through the filter. The two answers must be identical,
    /// except for the index, `took` and sequence numbers.
    async fn compare_text(&self, node: usize, query: &str, body: &str) {
        let direct = self.text("seen-d", &self.direct(node, &format!("/seen-d/_bulk?{query}")), body).await;
        let filtered = self.text("seen-f", &self.envoy.url(&format!("/seen-f/_bulk?{query}")), body).await;
        assert_eq!(direct, filtered, "{query}\n{body}");
    }

    async fn text(&self, index: &str, url: &str, body: &str) -> (u16, String, String) {
        let answer = self.client.post_ndjson(url, body.to_owned()).await.unwrap();
        let settings = self.get(&format!("/{index}/_settings")).await;
        let uuid = settings[index]["settings"]["index"]["uuid"].as_str().unwrap();
        let text = without_source(&answer.text().replace(index, "INDEX").replace(uuid, "UUID"));
        let content_type = answer.headers["content-type"].to_str().unwrap().to_owned();
        (answer.status.as_u16(), content_type, without_numbers(&without_numbers(&text, "took"), "_seq_no"))
    }
}

/// Removes the numbers that follow a name, in JSON or YAML.
fn without_numbers(text: &str, name: &str) -> String {
    let number = |char: char| char.is_numeric() || matches!(char, '"' | ' ' | ':');
    text.split(name).map(|rest| rest.trim_start_matches(number)).collect::<Vec<_>>().join(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn response_parameters_give_the_same_answer_as_from_the_cluster() {
    let scene = SharedScene::start("seen").await;
    for index in ["seen-d", "seen-f"] {
        scene.index(index, json!({})).await;
    }
    let before = scene.merged().await;
    let bodies = bodies();
    for (node, query) in FILTERED.iter().enumerate() {
        for body in &bodies {
            scene.compare_text(node, query, body).await;
        }
    }
    assert_eq!(scene.merged().await, before + (FILTERED.len() * bodies.len()) as u64);
    assert_eq!(scene.by_upstream("batches").await.len(), 3);
    for (node, query) in PASSED.iter().enumerate() {
        for body in &bodies {
            scene.compare_text(node, query, body).await;
        }
    }
    let passed = "requests_total.outcome.passed_through.reason.parameter";
    assert_eq!(scene.counted(passed).await, (PASSED.len() * bodies.len()) as u64);
    // Refusals are not filtered, neither of a request that passes through nor of its shares.
    for body in [bodies[3].as_str(), "junk\n", "", "{\"index\":{\"_id\":\"0\"}}\n{\"n\":1}"] {
        scene.compare_text(0, "filter_path=errors&refresh=banana", body).await;
        scene.compare_text(0, "filter_path=error.type&human=true", body).await;
        scene.compare_text(0, "pretty&filter_path=error.type", body).await;
        scene.compare_text(0, "pretty&timeout=banana", body).await;
    }
    scene.end().await;
}
