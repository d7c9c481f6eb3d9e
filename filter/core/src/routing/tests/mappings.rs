//! Settings of the filter in the mappings of indices.

use serde_json::{Value, json};

use super::super::PollEvent;
use super::harness::{CONFIG, Harness, INTERVAL, SECOND};
use crate::config::Enabled;

/// Changes the filter's settings in the mapping of index j, and lets all workers follow.
fn set(harness: &mut Harness, meta: Value) {
    harness.follow(|cluster| cluster.change("j", |index| index.meta = meta));
}

/// Returns the messages of all workers since the last call.
fn warnings(harness: &Harness) -> Vec<String> {
    let events = |worker: usize| harness.worker(worker).events.clone();
    let warnings = (0..harness.workers.len()).flat_map(events).filter_map(|event| match event {
        PollEvent::Ignored(warning) => Some(warning),
        _ => None,
    });
    let warnings = warnings.collect();
    harness.forget();
    warnings
}

/// Returns the messages in a worker's table.
fn known(harness: &Harness, worker: usize) -> Vec<String> {
    harness.worker(worker).table.as_ref().unwrap().mapping_warnings(10).0
}

const MISSPELLED: &str = "index `j`: the mapping's setting `_meta.bulk_reshuffle.missing_ids` is ignored: unknown, \
    expected `enabled`, `missing_id` or `single_documents`";

#[test]
fn the_worker_that_reads_an_invalid_setting_warns_and_every_worker_knows_it() {
    let mut harness = Harness::settled(3);
    set(&mut harness, json!({"missing_ids": "pass", "enabled": false}));
    assert_eq!(warnings(&harness), [MISSPELLED]);
    let late = harness.join(CONFIG);
    harness.follow_for(SECOND);
    assert_eq!(harness.asked(), [], "the last worker has polled");
    for worker in 0..=late {
        assert_eq!(known(&harness, worker), [MISSPELLED], "{worker}");
        let table = harness.worker(worker).table.clone().unwrap();
        assert_eq!(table.write_target("j").unwrap().overrides().enabled, Some(Enabled::No));
        assert_eq!(table.mapping_warnings(0), (Vec::new(), 1));
    }
    set(&mut harness, json!({"missing_id": "pass"}));
    assert_eq!(warnings(&harness), [""; 0]);
    assert!((0..=late).all(|worker| known(&harness, worker).is_empty()));
}

#[test]
fn a_warning_about_a_mapping_is_repeated_only_when_it_changes() {
    let mut harness = Harness::settled(2);
    set(&mut harness, json!({"missing_ids": "pass"}));
    assert_eq!(warnings(&harness), [MISSPELLED]);
    // The index changes, and its settings stay. Either worker may read it.
    for node in ["n0", "n1", "n2", "n0"] {
        harness.follow(|cluster| cluster.place("j", node));
        harness.run_for(INTERVAL);
    }
    assert_eq!(warnings(&harness), [""; 0]);
    set(&mut harness, json!({"enabled": 1}));
    assert!(
        warnings(&harness)[0]
            .ends_with("`_meta.bulk_reshuffle.enabled` is ignored: expected a boolean or \"observe\", found 1")
    );
    set(&mut harness, json!({}));
    set(&mut harness, json!({"missing_ids": "pass"}));
    assert_eq!(warnings(&harness), [MISSPELLED]);
}
