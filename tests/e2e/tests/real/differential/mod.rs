//! Random bulk requests, sent both directly to a node of a real cluster and through the filter, get the same answers
//! and leave the same documents.
//!
//! `make differential` runs more seeds, or repeats one seed.

mod answer;
mod chance;
mod change;
mod oddity;
mod operation;
mod request;
mod seed;
mod style;
mod tally;
mod target;
mod template;

use std::time::Instant;

use serde_json::json;

use crate::shared_scene::{SharedScene, distribution};
use tally::Tally;

/// The default number of seeds.
const SEEDS: u64 = 8;

/// The number of differences to print for a seed. Further ones mostly follow from the first.
const SHOWN: usize = 3;

fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    match number("DIFFERENTIAL_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("DIFFERENTIAL_SEEDS").unwrap_or(SEEDS)).collect(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_filter_answers_what_the_cluster_answers() {
    // Such a long interval leaves the filter with what it knew before a change, until it learns otherwise.
    let config = json!({"cluster_state": {"refresh": "10m"}});
    let scene = SharedScene::start_alone_with("differential", config).await;
    scene.make_twins(distribution()).await;
    let before = scene.counters().await;
    let mut tally = Tally::default();
    let seeds = seeds();
    let started = Instant::now();
    let mut failed = Vec::new();
    for seed in &seeds {
        let differences = seed::run(&scene, *seed, &mut tally).await;
        for difference in differences.iter().take(SHOWN) {
            println!("seed {seed}, {difference}\n");
        }
        if !differences.is_empty() {
            failed.push(seed);
        }
    }
    assert!(
        failed.is_empty(),
        "seeds {failed:?} differ, see above. To repeat a seed: make differential SEED={}",
        failed[0]
    );
    let counted = scene.counters().await.since(&before);
    println!("{} seeds in {:.0} s: {tally:#?}\n{counted:#?}", seeds.len(), started.elapsed().as_secs_f64());
    // Otherwise the cluster was only compared with itself.
    let requests = tally.requests as u64;
    assert!(counted.merged * 2 > requests, "{} of {requests} requests were split", counted.merged);
    assert!(counted.batches * 3 < counted.batch_requests * 2, "almost no batch had two requests");
    scene.remove_waiting().await;
    scene.end().await;
}
