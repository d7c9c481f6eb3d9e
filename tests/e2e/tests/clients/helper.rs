//! The test of every helper of every client.

use std::collections::BTreeMap;

use bulk_reshuffle_stack::Distribution;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::operation::{Document, Operation, earlier_documents, later_documents, operations};
use crate::program::Program;
use crate::report::{Report, Told};
use crate::shared_scene::SharedScene;

/// A client's helper for sending many operations.
pub struct Helper {
    pub program: Program,
    /// The helper's name in the program.
    pub name: &'static str,
    pub told: Told,
    /// The options of each run of the program.
    pub styles: &'static [Style],
}

/// Options of a program.
pub type Style = &'static [&'static str];

/// The default options, and the options that make requests and answers smaller.
pub const ALL_STYLES: &[Style] = &[&[], &["--compress", "--filter-path"]];

/// The options for helpers without `filter_path`.
pub const WITHOUT_FILTER_PATH: &[Style] = &[&[], &["--compress"]];

impl Helper {
    /// Checks that the client learns the outcome of each operation, that the cluster has the documents, and that the
    /// filter has split every request.
    pub async fn check(self, distribution: Distribution) {
        let name = format!("{:?}-{}", self.program, self.name).replace(|char: char| !char.is_ascii_alphanumeric(), "-");
        let scene = SharedScene::start_in_front_of(distribution, &name, json!({})).await;
        for (number, style) in self.styles.iter().enumerate() {
            let index = format!("{name}-{number}").to_lowercase();
            scene.index(&index, json!({"number_of_shards": 5})).await;
            scene.bulk(&earlier_documents(&index)).await.ok().unwrap();
            let before = scene.counts().await;

            let operations = operations();
            let file = file_of(&operations);
            let (url, path) = (scene.envoy.url(""), file.path().to_str().unwrap());
            let arguments = [self.name, &url, &index, path];
            let printed = self.program.run(&[style, arguments.as_slice()].concat()).await;

            Report::parse(&printed).check(&operations, self.told);
            assert_eq!(scene.documents_of(&index).await, later_documents());
            let counted = scene.counts().await.since(&before);
            println!("{name} {style:?}: {counted:?}");
            assert_eq!(counted.passed, BTreeMap::new(), "requests that passed through");
            assert_eq!(counted.operations, operations.len() as u64);
            assert!(counted.merged >= 4, "only {} requests", counted.merged);
            assert_eq!(counted.batches.len(), 3, "upstreams that got a share: {counted:?}");
        }
        scene.end().await;
    }
}

fn file_of(operations: &[Operation]) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let lines: String = operations.iter().map(|operation| operation.line() + "\n").collect();
    std::fs::write(&file, lines).unwrap();
    file
}

impl SharedScene {
    /// Returns all documents of an index by id, or by number if the id was generated.
    async fn documents_of(&self, index: &str) -> BTreeMap<String, Document> {
        self.documents(index).await;
        let found = self.client.get_json(&self.direct(0, &format!("/{index}/_search?size=10000"))).await.unwrap();
        found["hits"]["hits"].as_array().unwrap().iter().map(document).collect()
    }
}

fn document(hit: &Value) -> (String, Document) {
    let id = hit["_id"].as_str().unwrap();
    let is_ours = id.contains([' ', '/']);
    let name = if is_ours { id.to_owned() } else { format!("generated {}", hit["_source"]["n"]) };
    (name, (hit["_routing"].as_str().map(str::to_owned), hit["_source"].clone()))
}
