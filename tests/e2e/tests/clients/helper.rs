//! The test that every helper of every client must pass.

use std::collections::BTreeMap;

use bulk_reshuffle_stack::Distribution;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::operation::{Document, Operation, earlier_documents, later_documents, operations};
use crate::program::Program;
use crate::report::{Report, Told};
use crate::site::Site;

/// A client's way to send many operations.
pub struct Helper {
    pub program: Program,
    /// As the program knows it.
    pub name: &'static str,
    pub told: Told,
    /// How the program is called, once for each.
    pub styles: &'static [Style],
}

/// Options of a program.
pub type Style = &'static [&'static str];

/// As most people use it, and with all that makes requests and answers smaller.
pub const ALL_STYLES: &[Style] = &[&[], &["--compress", "--filter-path"]];

/// For helpers that cannot ask for a part of the answers.
pub const WITHOUT_FILTER_PATH: &[Style] = &[&[], &["--compress"]];

impl Helper {
    /// The client learns the outcome of each of its operations, the cluster has the documents, and the filter has
    /// split every single request.
    pub async fn check(self, distribution: Distribution) {
        let name = format!("{:?}-{}", self.program, self.name).replace(|char: char| !char.is_ascii_alphanumeric(), "-");
        let site = Site::start_in_front_of(distribution, &name, json!({})).await;
        for (number, style) in self.styles.iter().enumerate() {
            let index = format!("{name}-{number}").to_lowercase();
            site.index(&index, json!({"number_of_shards": 5})).await;
            site.bulk(&earlier_documents(&index)).await.ok().unwrap();
            let before = site.counts().await;

            let operations = operations();
            let file = file_of(&operations);
            let (url, path) = (site.envoy.url(""), file.path().to_str().unwrap());
            let arguments = [self.name, &url, &index, path];
            let printed = self.program.run(&[style, arguments.as_slice()].concat()).await;

            Report::parse(&printed).check(&operations, self.told);
            assert_eq!(site.documents_of(&index).await, later_documents());
            let counted = site.counts().await.since(&before);
            println!("{name} {style:?}: {counted:?}");
            assert_eq!(counted.passed, BTreeMap::new(), "requests that passed through whole");
            assert_eq!(counted.operations, operations.len() as u64);
            assert!(counted.merged >= 4, "only {} requests", counted.merged);
            assert_eq!(counted.batches.len(), 3, "upstreams that got a share: {counted:?}");
        }
        site.end().await;
    }
}

fn file_of(operations: &[Operation]) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let lines: String = operations.iter().map(|operation| operation.line() + "\n").collect();
    std::fs::write(&file, lines).unwrap();
    file
}

impl Site {
    /// All documents of an index. Those with generated ids go by their number.
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
