//! Tests of the explorer's package in Node, packed and installed by npm.

use std::fs;
use std::path::Path;
use std::process::Command;

use bulk_reshuffle::routing::{Formula, hash};
use bulk_reshuffle_explorer::cluster::Cluster;
use bulk_reshuffle_explorer::sample;
use serde_json::{Value, json};

/// Returns ids of many kinds, each with its shard by the engine's formula.
fn vectors() -> Value {
    let mut random = fastrand::Rng::with_seed(1);
    let mut id = || (0..random.usize(1..20)).map(|_| random.char(' '..)).collect::<String>();
    let formula = Formula::Factor { shards: 5, routing_shards: 640 };
    let shard = |id: &String| json!({"id": id, "shard": formula.shard(hash(id)), "hash": hash(id) as i32});
    (0..500).map(|_| id()).chain(["hello".to_owned(), "Γειά σου Κόσμε".to_owned()]).map(|id| shard(&id)).collect()
}

#[test]
fn the_package_installs_and_returns_the_engines_results() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let cluster = Cluster::new(&sample::state(), "").unwrap();
    let explanation = cluster.explain("/_bulk", sample::body().as_bytes(), 1000).unwrap();
    let expected = json!({
        "vectors": vectors(),
        "state": sample::state(),
        "body": sample::body(),
        "explanation": explanation,
        "forwarding": cluster.forwarding(&explanation),
        "place": cluster.place("orders", Some("o-17"), None).unwrap(),
        "version": env!("CARGO_PKG_VERSION"),
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("expected.json");
    fs::write(&file, expected.to_string()).unwrap();
    let status = Command::new(root.join(".tools/node/bin/node"))
        .args(["--test", "--test-reporter=spec"])
        .arg(root.join("examples/explorer/tests/package.test.mjs"))
        .env("EXPECTED", &file)
        .env("FOLDER", folder.path())
        .status();
    assert!(status.unwrap().success());
}
