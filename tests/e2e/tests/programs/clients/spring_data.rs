//! Spring Data's repositories, which write each entity in a request, and refresh the index after it.

use std::collections::BTreeMap;
use std::process::Stdio;

use bulk_reshuffle_stack::Distribution::Elasticsearch8;
use bulk_reshuffle_stack::Tools;
use serde_json::json;

use crate::documents::{Document, documents};
use crate::execution::{self, bare};
use crate::shared_scene::SharedScene;

/// The name in the program.
const INDEX: &str = "spring-data";

const ENTITIES: usize = 120;

/// Returns the edition of an entity after all writes, unless it is deleted. See the program.
fn edition(n: usize) -> Option<u64> {
    (!n.is_multiple_of(4)).then(|| if n.is_multiple_of(3) { 2 } else { 1 })
}

/// Checks that each thread reads what it has written, and that all writes were merged.
pub async fn check() {
    let scene = SharedScene::start_in_front_of(Elasticsearch8, INDEX, json!({"single_documents": true})).await;
    scene.index(INDEX, json!({"number_of_shards": 5})).await;
    let before = scene.counts().await;
    let tools = Tools::find().unwrap();
    let (mut program, jars) = (bare(tools.java.join("bin/java")), tools.folder("spring-data").unwrap());
    program
        .args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dstdout.encoding=UTF-8", "-cp"])
        .arg(format!("{0}:{0}/*", jars.display()))
        .args(["WriteDocuments", &scene.envoy.url(""), &ENTITIES.to_string()]);
    let printed = execution::run(INDEX, program, Stdio::null()).await.unwrap();

    let found = documents(&scene.client, &scene.direct(0, ""), INDEX).await.unwrap();
    let title = |document: &Document| document.source["title"].as_str().unwrap().to_owned();
    let stored: BTreeMap<_, _> = found.into_iter().map(|document| (title(&document), document)).collect();
    assert_eq!(printed.lines().count(), ENTITIES);
    for (n, line) in printed.lines().enumerate() {
        let stored = stored.get(&format!("“{n}”\nin two lines"));
        assert_eq!(stored.map(|document| document.source["edition"].as_u64().unwrap()), edition(n), "{n}");
        let told = stored.map_or("absent".to_owned(), |of| format!("{} {}", of.source["edition"], of.id));
        assert_eq!(line, format!("{n} {told}"));
        let is_chosen = stored.is_none_or(|document| document.id == format!("book {n}/é"));
        assert!(is_chosen || n.is_multiple_of(5), "{line}");
    }
    let counted = scene.counts().await.since(&before);
    counted.check_split("Spring Data");
    let count = |every: usize| ENTITIES.div_ceil(every) as u64;
    assert_eq!(counted.single_documents, count(1) + count(3) + count(4));
    assert!(counted.batches.values().sum::<u64>() < counted.single_documents, "no writes shared a batch");
    scene.end().await;
}
