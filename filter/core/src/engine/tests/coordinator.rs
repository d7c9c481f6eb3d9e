//! Operations whose node is not known and that may be merged for the coordinator.

use serde_json::{Value, json};

use super::harness::{Harness, add_index, id_on, index, operation, shards, state};
use crate::engine::pass_through::PassThrough;
use crate::routing::Unrouted;

/// Creates a harness with an additional index "series" that does not route by hash.
fn harness() -> Harness {
    let mut state = state();
    add_index(&mut state, "series")["settings"]["index"]["mode"] = json!("time_series");
    Harness::knowing(json!({}), &state)
}

fn point(id: Option<&str>) -> String {
    let id = id.map(|id| format!(",\"_id\":\"{id}\"")).unwrap_or_default();
    format!("{{\"create\":{{\"_index\":\"series\"{id}}}}}\n{{\"value\":1}}\n")
}

#[test]
fn unrouted_operations_form_one_additional_share() {
    let mut harness = harness();
    let id = harness.send("/_bulk", &(point(None) + &index(&[id_on(0, 0)]) + &point(Some("p")) + &point(None)));
    let mut upstreams = harness.upstreams();
    upstreams.sort_unstable();
    assert_eq!(upstreams, ["es", "es-0"]);
    assert_eq!(harness.bodies_to("es"), [point(None) + &point(Some("p")) + &point(None)]);
    harness.settle();
    let ids: Vec<_> = harness.items(id).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["made".to_owned(), id_on(0, 0), "p".to_owned(), "made".to_owned()]);
    let nodes: Vec<Value> = (0..4)
        .map(|n| harness.reply(id)["items"][n].as_object().unwrap().values().next().unwrap()["_node"].clone())
        .collect();
    assert_eq!(nodes, ["es", "es-0", "es", "es"]);
}

#[test]
fn unrouted_operations_of_several_requests_leave_together() {
    let mut harness = harness();
    harness.send("/_bulk", &point(None));
    let ids = [0, 1].map(|_| harness.request("/_bulk", &point(None)));
    harness.answer("es");
    assert_eq!(harness.calls[0].body, point(None).repeat(2).as_bytes());
    harness.settle();
    assert!(ids.iter().all(|id| harness.items(*id).len() == 1));
}

#[test]
fn unrouted_operations_with_the_id_of_a_routed_one_make_the_request_pass_through() {
    let mut harness = harness();
    let body = point(Some(&id_on(0, 0))) + &index(&[id_on(0, 0)]);
    harness.assert_passes("/_bulk", &body);
    assert_eq!(harness.passed_because(PassThrough::SameId), 1);
    // Two operations with the same id in one share keep their order.
    let body = point(Some("x")).repeat(2) + &index(&[id_on(0, 0)]).repeat(2);
    let id = harness.request("/_bulk", &body);
    assert!(!harness.passed.contains_key(&id));
}

#[test]
fn operations_with_one_id_by_an_alias_and_another_name_stay_together() {
    let mut state = state();
    // All shards of j are on the second node.
    add_index(&mut state, "j");
    state["routing_table"]["indices"]["j"] = json!({"shards": shards(6, |_| "n1".to_owned())});
    let id = id_on(0, 0);
    let line = |name: &str, id: &str| operation("index", name, id, &json!({}));
    for (lines, passes) in [
        // The alias may have been moved to j since the last poll.
        ([line("a", &id), line("j", &id)], true),
        ([line("j", &id), line("a", &id)], true),
        ([line("a", &id), line("j", "other")], false),
        // Both go to one node, in this order.
        ([line("a", &id), line("i", &id)], false),
        ([line("a", &id), line("a", &id)], false),
        ([line("i", &id), line("j", &id)], false),
    ] {
        let mut harness = Harness::knowing(json!({}), &state);
        let request = harness.request("/_bulk", &lines.concat());
        assert_eq!(harness.passed.contains_key(&request), passes, "{lines:?}");
        assert_eq!(harness.passed_because(PassThrough::SameId), u64::from(passes));
        // Another operation by an alias does not matter to two names of indices.
        let harmless = [line("i", &id), line("j", &id), line("a", "another")].concat();
        let request = harness.request("/_bulk", &harmless);
        assert!(!harness.passed.contains_key(&request));
    }
}

#[test]
fn a_request_with_an_index_in_the_path_and_in_some_lines_passes_through() {
    let own = operation("index", "i", &id_on(0, 0), &json!({}));
    let paths = format!("{{\"index\":{{\"_id\":\"{}\"}}}}\n{{}}\n", id_on(1, 0));
    let mut harness = harness();
    for (path, body, mixed) in [
        ("/i/_bulk", own.repeat(2), 0),
        ("/i/_bulk", paths.repeat(2), 0),
        ("/_bulk", own.repeat(2), 0),
        ("/i/_bulk", own.clone() + &paths, 1),
        ("/i/_bulk", paths.clone() + &own, 2),
    ] {
        harness.request(path, &body);
        assert_eq!(harness.passed_because(PassThrough::MixedIndex), mixed, "{path} {body}");
    }
    harness.settle();
}

#[test]
fn operations_on_an_unknown_index_make_the_request_pass_through() {
    let mut harness = harness();
    let body = point(None) + "{\"create\":{\"_index\":\"new\"}}\n{}\n";
    harness.assert_passes("/_bulk", &body);
    assert_eq!(harness.passed_because(PassThrough::Unrouted(Unrouted::UnknownIndex)), 1);
}
