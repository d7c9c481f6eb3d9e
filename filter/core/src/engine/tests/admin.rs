//! The endpoints below the admin path.

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Harness, header_map, id_on, index, state};
use crate::engine::admin::Build;
use crate::engine::command::RequestId;
use crate::engine::input::Input;
use crate::engine::metrics::Gauge;
use crate::engine::pass_through::PassThrough;
use crate::routing::UpstreamId;

fn harness() -> Harness {
    let mut harness = Harness::new(json!({
        "admin_path": "/_bulk_reshuffle",
        "cluster_state": {"refresh": "1h"},
        "credentials": {"authorization": "ApiKey hush"},
    }));
    harness.engine.set_build(Build { version: "1.2.3", commit: "abc", features: vec!["simd128"] });
    harness
}

/// Sends a request without a body, and returns the status and body of the reply.
fn ask(harness: &mut Harness, method: &str, path: &str) -> (u16, String) {
    let id = 5000 + harness.replies.len() as u32;
    harness.send_bodiless(id, method, path);
    assert!(!harness.passed.contains_key(&id), "{path} went to the cluster");
    harness.woken();
    harness.gone(id);
    let response = &harness.replies[&id];
    (response.status, String::from_utf8(response.body.clone()).unwrap())
}

/// Returns the status.
pub fn status(harness: &mut Harness) -> Value {
    let (status, body) = ask(harness, "GET", "/_bulk_reshuffle/status");
    assert_eq!(status, 200);
    serde_json::from_str(&body).unwrap()
}

#[test]
fn without_an_admin_path_there_are_no_endpoints() {
    let mut harness = Harness::new(json!({}));
    for path in ["/_bulk_reshuffle/status", "/status", "/"] {
        assert!(!harness.engine.takes(path.as_bytes()), "{path}");
        harness.head(path, &[]);
    }
    assert_eq!((harness.passed.len(), harness.replies.len()), (3, 0));
}

#[test]
fn the_status_reports_nodes_requests_memory_and_the_state() {
    let mut harness = harness();
    assert!(harness.engine.takes(b"/_bulk_reshuffle/status") && !harness.engine.takes(b"/_search"));
    harness.request("/_bulk?pipeline=p", &index(&[id_on(0, 0)]));
    harness.write(&[id_on(0, 0), id_on(1, 0)]);
    harness.now += Duration::from_millis(7);
    harness.answer("es-1");
    harness.request("/_bulk", &index(&[id_on(0, 0)]));
    let status = status(&mut harness);
    assert_eq!(status["build"], json!({"version": "1.2.3", "commit": "abc", "features": ["simd128"]}));
    assert_eq!(status["configuration"]["hold"]["interval"], "50ms");
    assert_eq!(status["configuration"]["credentials"], json!({"authorization": "***"}));
    assert_eq!((&status["state"]["version"], &status["state"]["age_milliseconds"]), (&json!(1), &json!(7)));
    let totals = &status["totals"];
    assert_eq!(totals["requests_passed_through"], 1);
    assert_eq!(totals["passed_through_by_reason"], json!({"pipeline": 1}));
    assert!(totals["reasons"]["pipeline"].as_str().unwrap().starts_with("The request names an ingest pipeline"));
    assert_eq!(totals["operations"], 3);
    assert_eq!(totals["memory_bytes"], harness.engine.memory());
    assert_eq!(status["worker"]["requests"], 2);
    let names: Vec<_> = status["nodes"].as_array().unwrap().iter().map(|node| node["name"].clone()).collect();
    assert_eq!(names, ["es-0", "es-1", "es-2"]);
    let [first, second, third] = [0, 1, 2].map(|node: usize| &status["nodes"][node]);
    assert_eq!((&first["upstream"], &first["id"]), (&json!("es-0"), &json!("n0")));
    assert_eq!((&first["held_operations"], &first["in_flight_operations"]), (&json!(1), &json!(1)));
    assert_eq!((&second["batches"], &second["upstream_microseconds"]), (&json!(1), &json!(7000)));
    assert_eq!(second["health"], json!({"last_batch": "answered", "age_milliseconds": 0}));
    assert_eq!(third["health"], json!({"last_batch": "none"}));
    assert_eq!(status["coordinator"]["upstream"], "es");
    assert_eq!(status["nodes_left_out"], 0);
}

#[test]
fn the_status_reports_a_node_that_cannot_be_reached() {
    let mut harness = harness();
    harness.write(&[id_on(0, 0)]);
    harness.refuse_to_send("es-0");
    let first = status(&mut harness);
    let failed = &first["nodes"][0];
    // Envoy does not have this upstream, so the node's operations go elsewhere.
    assert_eq!(failed["without_upstream"], "upstream");
    assert_eq!(failed["upstream"], "es-0");
    assert_eq!(first["nodes"][1].get("without_upstream"), None);
    harness.settle();
    harness.tick_after(Duration::from_secs(3600));
    harness.write(&[id_on(1, 0)]);
    harness.lose("es-1");
    let failed = &status(&mut harness)["nodes"][1];
    assert_eq!(failed["health"]["last_batch"], "failed");
    assert_eq!(failed["health"]["failure"], "the node's answer was lost or too large to read");
    assert_eq!(failed["operations_unknown"], 1);
}

#[test]
fn the_status_shows_where_upstreams_lead() {
    let config = json!({"admin_path": "/_bulk_reshuffle", "nodes": {"only": ["es-0", "es-1"]}});
    let mut harness = Harness::without_state(config);
    assert_eq!(status(&mut harness)["nodes"], json!([]));
    harness.misled = Some(("es-1", "es-2"));
    harness.tick_after(Duration::from_millis(1));
    harness.load(&state());
    let status = status(&mut harness);
    assert_eq!((&status["state_problem"], &status["coordinator"]["check"]["result"]), (&Value::Null, &json!("right")));
    let nodes = status["nodes"].as_array().unwrap();
    assert_eq!(nodes[0]["check"]["result"], "right");
    assert_eq!(nodes[0].get("without_upstream"), None);
    assert_eq!(nodes[1]["check"]["result"], "other_node");
    assert_eq!((&nodes[1]["check"]["found"], &nodes[1]["upstream"]), (&json!("es-2"), &json!("es-1")));
    assert_eq!(nodes[1]["without_upstream"], "wrong_upstream");
    assert_eq!((nodes[2].get("upstream"), nodes[2].get("check")), (Some(&Value::Null), None));
    assert_eq!(harness.engine.gauges()[&Gauge::UpstreamsFaulty(harness.upstream("es-1"))], 1);
    let warning = "upstream \"es-1\": The upstream leads to another node of the cluster. \"es-2\" answers. Operations for \
                   its node go to the coordinator.";
    assert_eq!(harness.warnings, [warning]);
    harness.write(&[id_on(0, 0), id_on(1, 0)]);
    assert_eq!(harness.upstreams(), ["es-0", "es"]);
}

#[test]
fn the_status_shows_why_the_state_is_not_known() {
    let mut harness = Harness::without_state(json!({"admin_path": "/_bulk_reshuffle", "coordinator": "typo"}));
    for _ in 0..20 {
        harness.tick_after(Duration::from_millis(200));
        while let Some(call) = harness.state_queries.pop() {
            harness.root(Input::CallNotSent { call: call.id, has_upstream: false });
        }
    }
    let status = status(&mut harness);
    assert_eq!(status["state"], Value::Null);
    assert_eq!(status["state_problem"], "version: Envoy has no cluster of this name");
    assert_eq!(status["coordinator"]["check"]["result"], "no_upstream");
    assert_eq!(harness.engine.gauges()[&Gauge::UpstreamsFaulty(UpstreamId::COORDINATOR)], 1);
    let warning = "cluster state: version: Envoy has no cluster of this name (`coordinator` is \"typo\")";
    assert_eq!(harness.warnings, [warning]);
}

#[test]
fn queries_for_the_state_go_to_an_upstream_of_their_own() {
    let mut harness = Harness::without_state(
        json!({"admin_path": "/_bulk_reshuffle", "cluster_state": {"upstream": "es-state", "refresh": "1s"}}),
    );
    harness.tick_after(Duration::from_secs(4));
    let call = harness.state_queries.pop().unwrap();
    assert_eq!(call.upstream.as_ref(), "es-state");
    harness.root(Input::CallFailed { call: call.id });
    let call = harness.state_queries.pop().unwrap();
    harness.root(Input::CallFailed { call: call.id });
    let status = status(&mut harness);
    assert_eq!(status["coordinator"]["check"], Value::Null);
    let polled = harness.engine.upstreams().polled();
    assert_eq!(harness.engine.gauges()[&Gauge::UpstreamsFaulty(polled)], 1);
    let warning = "cluster state: version: no answer (`cluster_state.upstream` is \"es-state\")";
    assert_eq!(harness.warnings, [warning]);
}

#[test]
fn responses_contain_no_secrets() {
    let mut harness = harness();
    harness.request_with("/_bulk", &[("authorization", "Basic hush")], &index(&[id_on(0, 0)]));
    for path in ["/status", "/state", "/"] {
        let (status, body) = ask(&mut harness, "GET", &format!("/_bulk_reshuffle{path}"));
        assert!(status == 200 && !body.contains("hush"), "{path}: {body}");
    }
}

#[test]
fn unknown_endpoints_are_refused() {
    let mut harness = harness();
    for (method, path, expected) in
        [("GET", "/x", 404), ("GET", "/explain", 405), ("POST", "/status", 405), ("GET", "/state?most=no", 400)]
    {
        let (status, body) = ask(&mut harness, method, &format!("/_bulk_reshuffle{path}"));
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &body["status"]), (expected, &json!(expected)), "{method} {path}");
        assert!(body["error"].is_string());
    }
    let (status, _) = ask(&mut harness, "GET", "/_bulk_reshuffle");
    assert_eq!(status, 308);
    let reply = harness.replies.values().last().unwrap();
    assert!(reply.headers.contains(&("location".to_owned(), "/_bulk_reshuffle/".to_owned())));
}

#[test]
fn the_page_may_load_no_external_resources() {
    let mut harness = harness();
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
    ] {
        ask(&mut harness, "GET", &format!("/_bulk_reshuffle{path}"));
        let reply = harness.replies.values().last().unwrap();
        let header = |name: &str| &reply.headers.iter().find(|(found, _)| found == name).unwrap().1;
        assert_eq!(header("content-type"), content_type);
        assert!(header("content-security-policy").starts_with("default-src 'none'; script-src 'self';"));
    }
}

#[test]
fn a_bulk_request_is_explained_and_not_sent() {
    let mut harness = harness();
    let body = index(&[id_on(0, 0), id_on(1, 0)]);
    let (first, second) = body.split_at(30);
    let id = harness.head("/_bulk_reshuffle/explain", &[]);
    harness.data(id, first, false);
    assert!(harness.engine.memory() >= 30);
    harness.data(id, second, true);
    harness.woken();
    let explanation = harness.reply(id);
    assert_eq!(explanation["operations"], 2);
    assert_eq!(explanation["listed"][1]["id"], id_on(1, 0));
    assert_eq!(harness.engine.memory(), 0);
    let whole = harness.send("/_bulk_reshuffle/explain/i/_bulk?pipeline=p", &body);
    assert_eq!(harness.reply(whole)["because"]["reason"], "pipeline");
    let other = harness.send("/_bulk_reshuffle/explain/i/_search", &body);
    assert_eq!(harness.replies[&other].status, 404);
    assert!(harness.calls.is_empty() && harness.counts.is_empty() && harness.engine.is_idle());
}

#[test]
fn a_body_without_a_media_type_of_its_own_is_explained_as_a_bulk_body() {
    let mut harness = harness();
    for (id, media_type, reason) in [
        (7000, None, None),
        (7001, Some("application/x-www-form-urlencoded"), None),
        (7002, Some("application/json"), None),
        (7003, Some("text/plain"), Some("content_type")),
        (7004, Some("application/x-www-form-urlencoded; charset=latin1"), Some("content_type")),
    ] {
        let path = [(":method", "POST"), (":path", "/_bulk_reshuffle/explain")];
        let headers = path.into_iter().chain(media_type.map(|media_type| ("content-type", media_type)));
        let headers = header_map(&headers.collect::<Vec<_>>());
        harness.stream(Input::RequestHead { request: RequestId(id), headers, route: None, end: false });
        harness.data(id, index(&[id_on(0, 0)]), true);
        harness.woken();
        let explanation = harness.reply(id);
        assert_eq!(explanation["because"]["reason"].as_str(), reason, "{media_type:?}");
        harness.gone(id);
    }
}

#[test]
fn a_body_that_is_too_large_is_not_explained() {
    let mut harness = harness();
    let id = harness.head("/_bulk_reshuffle/explain", &[]);
    for _ in 0..5 {
        harness.data(id, vec![b' '; 1 << 20], false);
    }
    harness.woken();
    assert_eq!((harness.replies[&id].status, harness.engine.memory()), (413, 0));
    for (lines, status) in [(5000, 200), (5002, 413)] {
        let id = harness.send("/_bulk_reshuffle/explain", &index(&vec!["1".to_owned(); lines / 2]));
        assert_eq!((harness.replies[&id].status, harness.engine.memory()), (status, 0), "{lines} lines");
    }
    for (encoding, status) in [("GZIP", 415), ("identity", 200), ("br", 200)] {
        let headers = [("content-encoding", encoding)];
        let id = harness.send_with("/_bulk_reshuffle/explain", &headers, &index(&["1".to_owned()]));
        assert_eq!(harness.replies[&id].status, status, "{encoding}");
    }
}

#[test]
fn an_admin_request_starts_polling_for_an_unknown_state() {
    for path in ["/state", "/explain"] {
        let mut harness = Harness::without_state(json!({"admin_path": "/_bulk_reshuffle"}));
        let status = match path {
            "/state" => ask(&mut harness, "GET", "/_bulk_reshuffle/state").0,
            _ => {
                let id = harness.send("/_bulk_reshuffle/explain", &index(&[id_on(0, 0)]));
                harness.replies[&id].status
            }
        };
        assert_eq!((status, harness.state_queries.len()), (503, 1), "{path}");
    }
}

#[test]
fn a_request_whose_body_does_not_arrive_is_answered() {
    let mut harness = harness();
    let id = harness.head("/_bulk_reshuffle/explain", &[]);
    harness.tick_after(Duration::from_millis(200));
    assert_eq!(harness.replies[&id].status, 503);
    assert_eq!(harness.passed_because(PassThrough::HeaderPause), 0);
    harness.gone(id);
    harness.assert_idle();
}

/// Returns a body with everything that a sample must leave out or keep.
const SAMPLED: &str = concat!(
    r#"{"index":{"_id":"d1","routing":"r"}}"#,
    "\n",
    r#"{"secret":"hush"}"#,
    "\n",
    r#"{"create":{}}"#,
    "\n",
    "{}\n",
    r#"{"update":{"_id":"d2"}}"#,
    "\n",
    r#"{"doc":{"secret":"hush"}}"#,
    "\n",
    r#"{"delete":{"_id":"d3"}}"#,
    "\n",
);

#[test]
fn the_sample_is_the_next_bulk_request_without_its_documents() {
    check_sample(harness());
    let config = json!({"enabled": "observe", "admin_path": "/_bulk_reshuffle"});
    check_sample(Harness::knowing(config, &state()));
}

fn check_sample(mut harness: Harness) {
    harness.send_bodiless(7000, "GET", "/_bulk_reshuffle/sample");
    harness.request("/i/_bulk?pipeline=p", SAMPLED);
    harness.send("/i/_bulk", SAMPLED);
    let sample = String::from_utf8(harness.replies[&7000].body.clone()).unwrap();
    let lines: Vec<&str> = sample.lines().collect();
    let expected = [
        r#"{"index":{"_id":"d1","_index":"i","routing":"r"}}"#,
        "{               }",
        r#"{"create":{"_index":"i"}}"#,
        "{}",
        r#"{"update":{"_id":"d2","_index":"i"}}"#,
        r#"{"doc":{               }}"#,
        r#"{"delete":{"_id":"d3","_index":"i"}}"#,
    ];
    assert_eq!(lines, expected);
    let documents = |body: &str| {
        body.lines()
            .filter(|line| !line.contains("_i") && *line != r#"{"create":{}}"#)
            .map(str::len)
            .collect::<Vec<_>>()
    };
    assert_eq!(documents(&sample), documents(SAMPLED));
    // The sample can be explained.
    let explained = harness.send("/_bulk_reshuffle/explain", &sample);
    assert_eq!(harness.reply(explained)["way"], "split");
}

/// Metrics can be read only in a callback that a request for the status has to ask for.
#[test]
fn a_status_wakes_the_filter_although_nothing_else_is_due() {
    let mut harness = harness();
    harness.woken();
    let before = harness.wake_ups;
    harness.send_bodiless(7000, "GET", "/_bulk_reshuffle/status");
    assert_eq!(harness.wake_ups, before + 1);
    harness.woken();
    assert_eq!(harness.replies[&7000].status, 200);
}

#[test]
fn a_request_for_a_sample_times_out() {
    let mut harness = harness();
    harness.send_bodiless(7000, "GET", "/_bulk_reshuffle/sample");
    harness.woken();
    harness.tick_after(Duration::from_millis(9_999));
    // A filter that is being replaced stays until then.
    assert!(harness.replies.is_empty() && !harness.engine.is_idle());
    harness.tick_after(Duration::from_millis(1));
    assert_eq!((harness.replies[&7000].status, harness.engine.is_idle()), (504, true));
    harness.send_bodiless(7001, "GET", "/_bulk_reshuffle/sample");
    harness.gone(7001);
    harness.write(&[id_on(0, 0)]);
    assert!(!harness.replies.contains_key(&7001));
}

#[test]
fn the_number_of_concurrent_admin_requests_is_bounded() {
    let mut harness = harness();
    for id in 7000..7016 {
        harness.send_bodiless(id, "GET", "/_bulk_reshuffle/sample");
    }
    for path in ["status", "state", "sample"] {
        assert_eq!(ask(&mut harness, "GET", &format!("/_bulk_reshuffle/{path}")).0, 429, "{path}");
    }
    assert_eq!(ask(&mut harness, "GET", "/_bulk_reshuffle/").0, 200);
    harness.gone(7007);
    assert_eq!(ask(&mut harness, "GET", "/_bulk_reshuffle/status").0, 200);
    harness.request("/_bulk", &index(&[id_on(0, 0)]));
    while harness.replies.keys().filter(|id| (7000..7016).contains(*id)).count() < 15 {
        harness.woken();
    }
    assert!((7000..7016).all(|id| id == 7007 || harness.replies[&id].status == 200));
}

#[test]
fn nodes_that_have_left_do_not_lengthen_the_status() {
    let mut harness = harness();
    status(&mut harness);
    let at_first = harness.measured;
    for generation in 2..10 {
        let mut state = state();
        state["version"] = json!(generation);
        state["state_uuid"] = json!(format!("u{generation}"));
        state["nodes"] = (0..3).map(|n| (format!("n{n}"), json!({"name": format!("{generation}-{n}")}))).collect();
        harness.now += Duration::from_secs(3600);
        harness.load(&state);
    }
    assert!(harness.engine.upstreams().ids().count() > 20);
    assert_eq!(status(&mut harness)["nodes"][0]["upstream"], "9-0");
    assert_eq!(harness.measured, at_first);
}
