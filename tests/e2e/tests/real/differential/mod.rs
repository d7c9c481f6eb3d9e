//! Random bulk requests and requests for single documents get the same answers directly from a node of a real cluster
//! and through the filter, and leave the same documents.
//!
//! `make differential` runs more seeds, or repeats one seed.

mod answer;
mod chance;
mod change;
mod oddity;
mod operation;
mod request;
mod seed;
mod single;
mod style;
mod tally;
mod target;
mod template;

use std::time::Instant;

use serde_json::{Value, json};

use crate::shared_scene::{SharedScene, distribution};
use operation::Naming;
use tally::{Counters, Tally};

const SEEDS: u64 = 8;

/// The default number of seeds for nodes that refuse an index in a body.
const SEEDS_WITHOUT_INDEX: u64 = 3;

/// The number of differences to print for a seed. Further ones mostly follow from the first.
const SHOWN: usize = 3;

fn seeds(default: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    match number("DIFFERENTIAL_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("DIFFERENTIAL_SEEDS").unwrap_or(default)).collect(),
    }
}

/// Compares the answers to the requests of some seeds. Returns the numbers of both.
async fn compare(scene: &SharedScene, seeds: &[u64], naming: Naming) -> (Tally, Counters) {
    scene.make_twins(distribution()).await;
    let before = scene.counters_since(&Counters::new()).await;
    let mut tally = Tally::default();
    let started = Instant::now();
    let mut failed = Vec::new();
    for seed in seeds {
        let differences = seed::run(scene, *seed, naming, &mut tally).await;
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
    let counted = scene.counters_since(&before).await;
    println!("{} seeds in {:.0} s: {tally:#?}\n{counted:#?}", seeds.len(), started.elapsed().as_secs_f64());
    assert!(tally.ended_early * 4 <= seeds.len(), "{} of {} seeds ended early", tally.ended_early, seeds.len());
    // Otherwise the cluster was only compared with itself.
    let requests = tally.requests as u64;
    let merged = counted["requests_total.outcome.merged"];
    assert!(seeds.len() == 1 || merged * 2 > requests, "{merged} of {requests} requests were split");
    scene.remove_waiting().await;
    (tally, counted)
}

/// Returns a configuration in which the filter keeps what it knew before a change, until it learns otherwise.
fn forgetful() -> Value {
    json!({"cluster_state": {"refresh": "10m"}, "single_documents": true})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_filter_answers_what_the_cluster_answers() {
    let scene = SharedScene::start_alone("differential", forgetful(), None).await;
    let seeds = seeds(SEEDS);
    let (tally, counted) = compare(&scene, &seeds, Naming::Anywhere).await;
    let single = counted["single_documents_total.outcome.merged"];
    assert!(single * 20 > tally.requests as u64, "{single} of {} requests were single documents", tally.requests);
    // How many requests meet in a batch depends on the load of the machine.
    let are_shared = counted["batches_total"] * 5 < counted["batch_requests_total"] * 4;
    assert!(seeds.len() == 1 || are_shared, "almost no batch had two requests");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_filter_answers_what_nodes_answer_that_refuse_an_index_in_a_body() {
    let settings = json!({"rest.action.multi.allow_explicit_index": false});
    let scene = SharedScene::start_alone("no-index-in-body", forgetful(), Some(settings)).await;
    let (tally, counted) = compare(&scene, &seeds(SEEDS_WITHOUT_INDEX), Naming::PathOnly).await;
    assert!(tally.statuses.get(&200).is_some_and(|accepted| accepted * 5 > tally.requests), "{tally:?}");
    assert!(counted["batches_total"] < counted["batch_requests_total"], "no batch had two requests");
    scene.end().await;
}
