use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::harness::{Harness, Sent, add_index, header_map, id_on, operation as line, sent, shards, state};
use crate::bulk::gzip;
use crate::config::MissingId;
use crate::engine::command::Call;
use crate::engine::explain::{Explanation, LISTED, Way, Why, explained_path};
use crate::engine::metrics::Counter;
use crate::engine::pass_through::PassThrough;
use crate::routing::{Unrouted, hash};

/// Returns the cluster of [`state`] with more indices: a partitioned one, two that are merged but not routed, and a
/// closed one.
fn cluster() -> Value {
    let mut state = state();
    for (name, key, value) in [
        ("parts", "routing_partition_size", json!("2")),
        ("later", "version", json!({"created": "99999999"})),
        ("series", "mode", json!("time_series")),
        ("shut", "blocks", json!({"write": "true"})),
    ] {
        add_index(&mut state, name)["settings"]["index"][key] = value;
    }
    state
}

fn explain(harness: &Harness, path: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Explanation {
    explain_first(harness, path, headers, body, LISTED)
}

fn explain_first(
    harness: &Harness,
    path: &str,
    headers: &[(&str, &str)],
    body: impl AsRef<[u8]>,
    listed: usize,
) -> Explanation {
    let fixed = [(":method", "POST"), (":path", path), (":authority", "es"), ("content-type", "application/json")];
    let headers = header_map(&[&fixed, headers].concat());
    harness.engine.explain(headers, body.as_ref().to_vec(), listed).unwrap()
}

fn reason(explanation: &Explanation) -> &'static str {
    explanation.because.as_ref().unwrap().why.reason
}

#[test]
fn explains_the_destination_of_each_operation() {
    let harness = Harness::knowing(json!({}), &cluster());
    let [first, second] = [id_on(0, 0), id_on(2, 0)];
    let body = format!(
        "{{\"index\":{{\"_index\":\"a\",\"_id\":\"{first}\"}}}}\n{{}}\n\n\
         {{\"delete\":{{\"_index\":\"i\",\"_id\":\"x\",\"routing\":\"{second}\"}}}}\n\
         {{\"create\":{{\"_index\":\"later\"}}}}\n{{}}\n"
    );
    let explanation = explain(&harness, "/_bulk", &[], &body);
    assert_eq!((explanation.way, explanation.operations, explanation.shares), (Way::Split, 3, 3));
    let [aliased, deleted, later] = explanation.listed.as_slice() else { panic!("{explanation:?}") };
    assert_eq!((aliased.name.as_deref(), aliased.index.as_deref(), aliased.line), (Some("a"), Some("i"), 1));
    assert_eq!((aliased.upstream.as_str(), aliased.node.as_ref().unwrap().id.as_str()), ("es-0", "n0"));
    assert_eq!(aliased.choice.unwrap().hash, hash(&first) as i32);
    assert_eq!((aliased.choice.unwrap().modulus, aliased.choice.unwrap().factor), (768, 128));
    assert_eq!((deleted.position, deleted.line, deleted.routing.as_deref()), (1, 4, Some(second.as_str())));
    assert_eq!((deleted.id.as_deref(), deleted.upstream.as_str()), (Some("x"), "es-2"));
    assert_eq!((later.line, later.upstream.as_str(), later.unrouted.unwrap().reason), (5, "es", "version"));
    assert_eq!((later.missing_id, later.node.as_ref()), (Some(MissingId::Pass), None));
    assert_eq!(explanation.unrouted.iter().map(|total| total.operations).collect::<Vec<_>>(), [1]);
    let upstreams: Vec<_> = explanation.nodes.iter().map(|total| (total.upstream.as_str(), total.operations)).collect();
    assert_eq!(upstreams, [("es", 1), ("es-0", 1), ("es-1", 0), ("es-2", 1)]);
    assert_eq!((explanation.shards.len(), explanation.skew.nodes, explanation.skew.shards), (6, Some(1.5), Some(3.0)));
}

#[test]
fn explains_why_a_request_passes_through_and_which_line_causes_it() {
    let harness = Harness::knowing(json!({"indices": [{"pattern": "off", "enabled": false}]}), &cluster());
    let good = format!("{{\"index\":{{\"_index\":\"i\",\"_id\":\"{}\"}}}}\n{{}}\n\n", id_on(0, 0));
    for (rest, reason, line, name) in [
        ("{\"index\":{\"_index\":\"nope\"}}\n{}\n", "unknown_index", 4, Some("nope")),
        ("{\"index\":{\"_index\":\"shut\"}}\n{}\n", "write_block", 4, Some("shut")),
        ("{\"index\":{\"_index\":\"off\"}}\n{}\n", "disabled", 4, Some("off")),
        ("{\"index\":{}}\n{}\n", "no_index", 4, None),
        ("{\"index\":{\"_index\":\"i\",\"pipeline\":\"p\"}}\n{}\n", "pipeline", 4, Some("i")),
        ("{\"oops\":{}}\n{}\n", "action_line", 4, None),
        ("{\"update\":{\"_index\":\"i\",\"_id\":\"1\"}}\n[]\n", "update_body", 5, None),
        ("{\"index\":{\"_index\":\"i\"}}\n{}", "incomplete", 5, None),
    ] {
        let explanation = explain(&harness, "/_bulk", &[], format!("{good}{rest}"));
        let fault = explanation.because.clone().unwrap();
        assert_eq!((explanation.way, fault.why.reason), (Way::PassedWhole, reason));
        assert_eq!((fault.operation, fault.line, fault.name.as_deref()), (Some(1), Some(line), name), "{reason}");
        assert_eq!((explanation.operations, explanation.listed.len()), (1, 1));
    }
    let [id, other] = [id_on(0, 0), id_on(1, 0)];
    let body = [("later", &id), ("i", &other), ("i", &id)].map(|(name, id)| line("delete", name, id, &json!({})));
    let same = explain(&harness, "/_bulk", &[], body.concat()).because.unwrap();
    assert_eq!((same.why.reason, same.operation, same.line), ("same_id", Some(2), Some(3)));
}

#[test]
fn explains_requests_that_pass_through_before_their_body_is_read() {
    let harness = Harness::new(json!({"limits": {"max_request": "100b"}}));
    let body = "{\"delete\":{\"_index\":\"i\",\"_id\":\"1\"}}\n";
    for (path, headers, body, expected) in [
        ("/_bulk?unheard", [("x", "y")], body.to_owned(), "parameter"),
        ("/i/t/_bulk", [("x", "y")], body.to_owned(), "path"),
        ("/_bulk", [("accept", "text/plain")], body.to_owned(), "accept"),
        ("/_bulk", [("content-encoding", "gzip")], body.to_owned(), "gzip"),
        ("/_bulk", [("content-length", "101")], body.to_owned(), "too_large"),
        ("/_bulk", [("x", "y")], body.repeat(3), "too_large"),
        ("/_bulk", [("x", "y")], String::new(), "empty"),
    ] {
        let explanation = explain(&harness, path, &headers, body);
        assert_eq!((reason(&explanation), explanation.operations), (expected, 0));
    }
    assert_eq!(reason(&explain(&Harness::without_state(json!({})), "/_bulk", &[], body)), "no_state");
    assert_eq!(reason(&explain(&Harness::new(json!({"enabled": false})), "/_bulk", &[], body)), "switched_off");
    let search = header_map(&[(":method", "POST"), (":path", "/_search")]);
    assert_eq!(harness.engine.explain(search, Vec::new(), LISTED), None);
}

#[test]
fn explanations_contain_no_headers_and_only_the_ids_of_documents() {
    let harness = Harness::new(json!({"credentials": {"authorization": "ApiKey secret"}}));
    let body = format!("{{\"index\":{{\"_index\":\"i\",\"_id\":\"{}\"}}}}\n{{\"name\":\"secret\"}}\n", id_on(1, 0));
    let headers = [("authorization", "Basic secret"), ("cookie", "secret")];
    let told = serde_json::to_string(&explain(&harness, "/_bulk?timeout=1m", &headers, body)).unwrap();
    assert!(told.contains(&id_on(1, 0)) && !told.contains("secret") && !told.contains("1m"), "{told}");
}

#[test]
fn lists_the_requested_number_of_operations_and_sums_up_all() {
    let harness = Harness::new(json!({}));
    let body: String = (0..100).map(|n| format!("{{\"delete\":{{\"_index\":\"i\",\"_id\":\"{n}\"}}}}\n")).collect();
    let all = explain(&harness, "/_bulk", &[], &body);
    let few = explain_first(&harness, "/_bulk", &[], &body, 4);
    assert_eq!((few.listed.len(), few.left_out, few.shards.len(), few.shards_left_out), (4, 96, 4, 2));
    assert_eq!((&few.nodes, few.operations, few.bytes), (&all.nodes, 100, body.len() as u64));
    assert_eq!(few.listed, all.listed[..4]);
    assert_eq!(all.shards.iter().map(|shard| shard.operations).sum::<u64>(), 100);
}

#[test]
fn the_path_after_explain_is_the_path_of_the_bulk_request() {
    for (rest, path) in [
        ("", "/_bulk"),
        ("/", "/_bulk"),
        ("?routing=a", "/_bulk?routing=a"),
        ("/logs/_bulk?require_alias=true", "/logs/_bulk?require_alias=true"),
    ] {
        assert_eq!(explained_path(rest), path);
    }
}

#[test]
fn every_reason_has_a_sentence() {
    let reasons = [Why::from(PassThrough::SameId), Why::from(PassThrough::Unrouted(Unrouted::Primary))];
    assert_eq!(reasons[1], Why::from(Unrouted::Primary));
    assert!(reasons.iter().all(|why| why.text.ends_with('.')));
}

/// Generates an operation as a client may send it, possibly with a problem.
fn operation() -> impl Strategy<Value = (&'static str, &'static str, Option<u32>, Option<&'static str>)> {
    let names = prop_oneof![
        60 => Just("i"), 20 => Just("a"), 10 => Just(""), 8 => Just("parts"), 8 => Just("later"), 8 => Just("series"),
        1 => Just("shut"), 1 => Just("nope"),
    ];
    let actions = prop_oneof![5 => Just("index"), 3 => Just("create"), 2 => Just("update"), 2 => Just("delete")];
    let routing = prop_oneof![3 => Just(None), 1 => Just(Some("jane")), 1 => Just(Some("joe"))];
    (names, actions, proptest::option::weighted(0.9, 0..10_000_u32), routing)
}

/// Returns the body of these operations. Each contains its number in its id or its source.
fn text(operations: &[(&str, &str, Option<u32>, Option<&str>)]) -> String {
    let mut text = String::new();
    for (n, (index, action, id, routing)) in operations.iter().enumerate() {
        let mut parameters = serde_json::Map::new();
        for (key, value) in [
            ("_index", Some((*index).to_owned()).filter(|index| !index.is_empty())),
            ("_id", id.map(|id| format!("{id}-{n}"))),
            ("routing", routing.map(str::to_owned)),
        ] {
            parameters.extend(value.map(|value| (key.to_owned(), json!(value))));
        }
        text += &format!("{}\n", json!({ *action: parameters }));
        match *action {
            "delete" => {}
            "update" => text += &format!("{{\"doc\":{{\"n\":{n}}}}}\n"),
            _ => text += &format!("{{\"n\":{n}}}\n"),
        }
    }
    text
}

/// Returns the upstream to which each operation was actually sent, by its number, and the operations and bytes of each
/// upstream.
fn places(calls: &[Call]) -> (BTreeMap<u64, String>, BTreeMap<String, (u64, u64)>) {
    let (mut places, mut totals) = (BTreeMap::new(), BTreeMap::<String, (u64, u64)>::new());
    for call in calls {
        let upstream = call.upstream.to_string();
        let total = totals.entry(upstream.clone()).or_default();
        total.1 += call.body.len() as u64;
        for Sent { action, parameters, document } in sent(&call.body) {
            let number = match action.as_str() {
                "delete" => parameters["_id"].as_str().unwrap().rsplit('-').next().unwrap().parse().unwrap(),
                "update" => document["doc"]["n"].as_u64().unwrap(),
                _ => document["n"].as_u64().unwrap(),
            };
            total.0 += 1;
            assert!(places.insert(number, upstream.clone()).is_none());
        }
    }
    (places, totals)
}

/// Sends the same request to the engine, and compares the result with the explanation.
fn compare(harness: &mut Harness, path: &str, body: &str, is_zipped: bool) {
    let headers: &[(&str, &str)] = if is_zipped { &[("content-encoding", "gzip")] } else { &[] };
    let bytes = if is_zipped { gzip(body.as_bytes()) } else { body.as_bytes().to_vec() };
    let told = explain(harness, path, headers, &bytes);
    let id = harness.head(path, headers);
    harness.data(id, &bytes, true);
    harness.woken();
    let passed = harness.counts.keys().find_map(|metric| match metric {
        Counter::RequestsPassedThrough(why) => Some(why.name()),
        _ => None,
    });
    assert_eq!(told.because.as_ref().map(|fault| fault.why.reason), passed);
    if passed.is_some() {
        return;
    }
    let (places, totals) = places(&harness.calls);
    assert_eq!(told.operations, places.len() as u64);
    assert_eq!(told.shares, harness.calls.len());
    for operation in &told.listed {
        assert_eq!(operation.upstream, places[&u64::from(operation.position)], "{operation:?}");
        let of_node = operation.node.as_ref().map(|node| node.name.as_str());
        assert!(operation.unrouted.is_some() || of_node == Some(&operation.upstream), "{operation:?}");
        assert_eq!(operation.unrouted.is_some(), operation.upstream == "es");
    }
    let of_nodes = told.nodes.iter().filter(|total| total.operations > 0);
    let of_nodes: BTreeMap<_, _> =
        of_nodes.map(|total| (total.upstream.clone(), (total.operations, total.bytes))).collect();
    assert_eq!(of_nodes, totals);
}

proptest! {
    #[test]
    fn explanations_match_what_the_engine_does(
        operations in proptest::collection::vec(operation(), 1..40),
        missing_id in prop_oneof![Just("pass"), Just("generate"), Just("direct")],
        level in prop_oneof![Just("node"), Just("shard")],
        path in prop_oneof![Just("/i/_bulk"), Just("/a/_bulk?routing=mary"), Just("/_bulk")],
        is_zipped in any::<bool>(),
    ) {
        let config = json!({"missing_id": missing_id, "dispatch": {"level": level}});
        let mut harness = Harness::knowing(config, &cluster());
        compare(&mut harness, path, &text(&operations), is_zipped);
    }

    #[test]
    fn arbitrary_requests_do_not_panic(path in r"(/[a-z<]{0,3})?/_bulk(\?[?&=a-z]{0,9})?", body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let harness = Harness::new(json!({}));
        prop_assert!(explain(&harness, &path, &[], &body).way == Way::PassedWhole);
        let lines = [b"{\"delete\":{\"_index\":\"i\",\"_id\":\"1\"}}\n".as_slice(), &body].concat();
        explain_first(&harness, &path, &[], lines, 1);
    }
}

#[test]
fn the_number_of_summarized_shards_is_bounded() {
    let mut state = state();
    for number in 0..6 {
        let name = format!("many-{number}");
        let index = add_index(&mut state, &name);
        index["routing_num_shards"] = json!(1024);
        index["settings"]["index"]["number_of_shards"] = json!("1024");
        state["routing_table"]["indices"][name] = json!({"shards": shards(1024, |_| "n0".to_owned())});
    }
    let harness = Harness::knowing(json!({}), &state);
    let lines =
        [0, 0, 1, 2, 3, 4, 5].into_iter().map(|number| line("delete", &format!("many-{number}"), "1", &json!({})));
    let explanation = explain(&harness, "/_bulk", &[], lines.collect::<String>());
    assert_eq!((explanation.way, explanation.operations), (Way::Split, 7));
    // The shards of four indices are included, and those of the other two are not.
    assert_eq!((explanation.shards.len(), explanation.shards_left_out), (LISTED, 6 * 1024 - LISTED));
    assert_eq!(explanation.skew.shards, Some(2.0 * 4096.0 / 5.0));
}
