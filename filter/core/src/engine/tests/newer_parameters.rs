//! Parameters that only some releases know: `require_data_stream` in the query and in action lines, which the
//! OpenTelemetry collector's exporter sends, and `dynamic_templates`. And `require_alias`, which is like the first.

use serde_json::{Value, json};

use super::harness::{Harness, add_data_stream, id_on, index, set_releases, state};
use crate::engine::pass_through::PassThrough;
use crate::routing::Unrouted;

/// Creates a harness with nodes of these versions and an additional data stream "stream" with an alias "streams".
fn harness(config: Value, versions: [&str; 3]) -> Harness {
    let mut state = state();
    set_releases(&mut state, versions);
    add_data_stream(&mut state);
    Harness::knowing(config, &state)
}

fn operation(action: &str, name: &str, required: bool) -> String {
    super::harness::operation(action, name, &id_on(0, 0), &json!({"require_data_stream": required}))
}

const KNOW_IT: [&str; 3] = ["8.13.0", "8.19.2", "9.5.3"];

#[test]
fn the_parameter_is_forwarded_to_nodes_that_support_it() {
    for (path, name, required) in [
        ("/_bulk", "stream", true),
        ("/_bulk?require_data_stream", "streams", true),
        ("/_bulk?require_data_stream=true", "stream", false),
        ("/_bulk?require_data_stream=false", "i", true),
    ] {
        let mut harness = harness(json!({}), KNOW_IT);
        let body = operation("create", name, required);
        harness.send(path, &body);
        let call = &harness.calls[0];
        assert_eq!((call.upstream.as_ref(), call.body.as_slice()), ("es-0", body.as_bytes()));
        assert_eq!(call.headers.iter().find(|(name, _)| name == ":path").unwrap().1, path);
    }
}

#[test]
fn the_request_passes_through_if_a_node_does_not_support_the_parameter() {
    for third in ["8.12.2", "7.17.29"] {
        for (path, body) in [
            ("/_bulk", operation("create", "stream", true)),
            ("/_bulk", operation("create", "i", false)),
            ("/_bulk?require_data_stream=true", index(&[id_on(0, 0)])),
            ("/_bulk?require_data_stream=false", index(&[id_on(0, 0)])),
        ] {
            let mut harness = harness(json!({}), ["8.13.0", "8.13.0", third]);
            harness.assert_passes(path, &body);
            assert_eq!(harness.passed_because(PassThrough::Unrouted(Unrouted::RequireDataStream)), 1);
        }
    }
    let mut silent = Harness::new(json!({}));
    let id = silent.request("/_bulk?require_data_stream=true", &index(&[id_on(0, 0)]));
    assert!(silent.passed.contains_key(&id));
}

/// A cluster refuses the whole request if an update has the parameter, and ignores it in a deletion.
#[test]
fn the_request_passes_through_if_an_update_has_the_parameter() {
    for (path, action, required, passes) in [
        ("/_bulk", "update", true, true),
        ("/_bulk", "update", false, false),
        ("/_bulk?require_data_stream=true", "update", false, false),
        ("/_bulk?require_data_stream=false", "update", true, true),
        ("/_bulk?require_data_stream=true", "delete", true, false),
    ] {
        let mut harness = harness(json!({}), KNOW_IT);
        let id = harness.request(path, &operation(action, "i", required));
        assert_eq!(harness.passed.contains_key(&id), passes, "{path} {action} {required}");
    }
    let mut harness = harness(json!({}), KNOW_IT);
    let body = "{\"update\":{\"_index\":\"i\",\"_id\":\"1\"}}\n{\"doc\":{}}\n";
    harness.assert_passes("/_bulk?require_data_stream=true", body);
}

/// Returns an operation with these parameters.
fn line(more: &Value) -> String {
    super::harness::operation("index", "i", &id_on(0, 0), more)
}

/// Returns the bodies of the batches of these requests.
fn batches(harness: &mut Harness, path: &str, bodies: &[&String]) -> Vec<String> {
    for body in bodies {
        harness.request(path, body);
    }
    harness.tick_after(std::time::Duration::from_secs(1));
    harness.bodies()
}

/// The name may have been deleted since the last poll. The cluster creates an index for it again, unless a line in the
/// same batch requires an alias or a data stream.
#[test]
fn lines_that_require_something_of_their_name_share_no_batch_with_others() {
    let [plain, alias, stream] =
        [json!({}), json!({"require_alias": true}), json!({"require_data_stream": true})].map(|more| line(&more));
    let hold = json!({"hold": {"early_release": false}});
    let mut apart = harness(hold.clone(), KNOW_IT);
    let sent = batches(&mut apart, "/_bulk", &[&plain, &alias, &stream, &plain, &alias, &stream]);
    assert_eq!(sent, [&plain, &alias, &stream].map(|body| body.repeat(2)));
    for other in [&alias, &stream] {
        let body = plain.clone() + other;
        apart.assert_passes("/_bulk", &body);
    }
    assert_eq!(apart.passed_because(PassThrough::ActionLine), 2);
    // These lines repeat what the query says.
    let not = line(&json!({"require_alias": false, "require_data_stream": false}));
    let sent = batches(&mut harness(hold.clone(), KNOW_IT), "/_bulk", &[&plain, &not, &(plain.clone() + &not)]);
    assert_eq!(sent, [[&plain, &not, &plain, &not].map(String::as_str).concat()]);
    let sent = batches(&mut harness(hold, KNOW_IT), "/_bulk?require_alias=true", &[&plain, &alias]);
    assert_eq!(sent, [plain + &alias]);
}

/// Fluent Bit and Fluentd write types for Elasticsearch 7. The cluster answers with a warning, which is for them alone.
#[test]
fn types_are_for_nodes_that_accept_them_and_their_requests_share_no_batch_with_others() {
    let (typed, untyped) = (line(&json!({"_type": "_doc"})), line(&json!({})));
    for releases in [["7.17.29", "7.10.2", "7.17.29"], ["1.3.20"; 3]] {
        let mut harness = harness(json!({"hold": {"early_release": false}}), releases);
        let sent = batches(&mut harness, "/_bulk", &[&typed, &untyped, &typed]);
        assert_eq!(sent, [untyped.clone(), typed.repeat(2)]);
        assert_eq!(harness.calls[0].headers, harness.calls[1].headers);
        harness.settle();
        assert_eq!(harness.replies.len(), 3);
    }
    for releases in [["7.17.29", "8.0.0", "7.17.29"], ["2.0.0"; 3], ["1.3.20", "1.3.20", "2.19.6"]] {
        let mut harness = harness(json!({}), releases);
        harness.request("/_bulk", &typed);
        assert_eq!(harness.passed_because(PassThrough::Unrouted(Unrouted::Type)), 1, "{releases:?}");
    }
}

/// The OpenTelemetry collector's exporter writes dynamic templates for metrics.
#[test]
fn dynamic_templates_are_for_nodes_that_are_known_to_support_them() {
    let templates = json!({"dynamic_templates": {"a": "long"}});
    let body = super::harness::operation("create", "i", &id_on(0, 0), &templates);
    let mut known = harness(json!({}), ["8.8.0", "8.19.2", "9.5.3"]);
    known.send("/_bulk", &body);
    assert_eq!((known.calls[0].upstream.as_ref(), known.calls[0].body.as_slice()), ("es-0", body.as_bytes()));
    let mut unknown = Harness::new(json!({}));
    unknown.assert_passes("/_bulk", &body);
    assert_eq!(unknown.passed_because(PassThrough::Unrouted(Unrouted::DynamicTemplates)), 1);
}
