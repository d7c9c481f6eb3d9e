//! The endpoints below the admin path.

use std::time::Duration;

use serde_json::{Value, json};

use super::world::{World, id_on, index, state};
use crate::engine::admin::Build;
use crate::engine::command::RequestId;
use crate::engine::input::Input;
use crate::engine::pass_through::PassThrough;

fn world() -> World {
    let mut world = World::new(json!({
        "admin_path": "/_bulk_reshuffle",
        "cluster_state": {"refresh": "1h"},
        "credentials": {"authorization": "ApiKey hush"},
    }));
    world.engine.set_build(Build { version: "1.2.3", commit: "abc", features: vec!["simd128"] });
    world
}

/// Sends a request without a body.
fn send(world: &mut World, id: u32, method: &str, path: &str) {
    let headers = [(":method", method), (":path", path)];
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    world.stream(Input::RequestHead { request: RequestId(id), headers, route: None, end: true });
}

/// Sends a request without a body, and returns the status and body of the reply.
fn ask(world: &mut World, method: &str, path: &str) -> (u16, String) {
    let id = 5000 + world.replies.len() as u32;
    send(world, id, method, path);
    assert!(!world.passed.contains_key(&id), "{path} went to the cluster");
    world.woken();
    world.gone(id);
    let response = &world.replies[&id];
    (response.status, String::from_utf8(response.body.clone()).unwrap())
}

fn status(world: &mut World) -> Value {
    let (status, body) = ask(world, "GET", "/_bulk_reshuffle/status");
    assert_eq!(status, 200);
    serde_json::from_str(&body).unwrap()
}

#[test]
fn without_an_admin_path_there_are_no_endpoints() {
    let mut world = World::new(json!({}));
    for path in ["/_bulk_reshuffle/status", "/status", "/"] {
        assert!(!world.engine.takes(path.as_bytes()), "{path}");
        world.head(path, &[]);
    }
    assert_eq!((world.passed.len(), world.replies.len()), (3, 0));
}

#[test]
fn the_status_reports_nodes_requests_memory_and_the_state() {
    let mut world = world();
    assert!(world.engine.takes(b"/_bulk_reshuffle/status") && !world.engine.takes(b"/_search"));
    world.request("/_bulk?pipeline=p", &index(&[id_on(0, 0)]));
    world.request("/_bulk", &index(&[id_on(0, 0), id_on(1, 0)]));
    world.woken();
    world.now += Duration::from_millis(7);
    world.answer("es-1");
    world.request("/_bulk", &index(&[id_on(0, 0)]));
    let status = status(&mut world);
    assert_eq!(status["build"], json!({"version": "1.2.3", "commit": "abc", "features": ["simd128"]}));
    assert_eq!(status["configuration"]["hold"]["interval"], "50ms");
    assert_eq!(status["configuration"]["credentials"], json!({"authorization": "***"}));
    assert_eq!((&status["state"]["version"], &status["state"]["age_milliseconds"]), (&json!(1), &json!(7)));
    let totals = &status["totals"];
    assert_eq!(totals["requests_passed_through"], 1);
    assert_eq!(totals["passed_through_by_reason"], json!({"pipeline": 1}));
    assert!(totals["reasons"]["pipeline"].as_str().unwrap().starts_with("The request names an ingest pipeline"));
    assert_eq!(totals["operations"], 3);
    assert_eq!(totals["memory_bytes"], world.engine.memory());
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
    let mut world = world();
    world.request("/_bulk", &index(&[id_on(0, 0)]));
    world.woken();
    let call = world.take_call("es-0");
    world.root(Input::CallNotSent { call: call.id });
    let failed = &status(&mut world)["nodes"][0];
    // Envoy does not have this upstream, so the node no longer has one.
    assert_eq!(failed["without_upstream"], "upstream");
    world.settle();
    world.tick_after(Duration::from_secs(3600));
    world.request("/_bulk", &index(&[id_on(1, 0)]));
    world.woken();
    let call = world.take_call("es-1");
    world.root(Input::CallFailed { call: call.id });
    let failed = &status(&mut world)["nodes"][1];
    assert_eq!(failed["health"]["last_batch"], "failed");
    assert_eq!(failed["health"]["failure"], "the node's answer was lost or too large to read");
    assert_eq!(failed["operations_unknown"], 1);
}

#[test]
fn responses_contain_no_secrets() {
    let mut world = world();
    world.request_with("/_bulk", &[("authorization", "Basic hush")], &index(&[id_on(0, 0)]));
    for path in ["/status", "/state", "/"] {
        let (status, body) = ask(&mut world, "GET", &format!("/_bulk_reshuffle{path}"));
        assert!(status == 200 && !body.contains("hush"), "{path}: {body}");
    }
}

#[test]
fn unknown_endpoints_are_refused() {
    let mut world = world();
    for (method, path, expected) in
        [("GET", "/x", 404), ("GET", "/explain", 405), ("POST", "/status", 405), ("GET", "/state?most=no", 400)]
    {
        let (status, body) = ask(&mut world, method, &format!("/_bulk_reshuffle{path}"));
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &body["status"]), (expected, &json!(expected)), "{method} {path}");
        assert!(body["error"].is_string());
    }
    let (status, _) = ask(&mut world, "GET", "/_bulk_reshuffle");
    assert_eq!(status, 308);
    let reply = world.replies.values().last().unwrap();
    assert!(reply.headers.contains(&("location".to_owned(), "/_bulk_reshuffle/".to_owned())));
}

#[test]
fn the_page_may_load_no_external_resources() {
    let mut world = world();
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
    ] {
        ask(&mut world, "GET", &format!("/_bulk_reshuffle{path}"));
        let reply = world.replies.values().last().unwrap();
        let header = |name: &str| &reply.headers.iter().find(|(found, _)| found == name).unwrap().1;
        assert_eq!(header("content-type"), content_type);
        assert!(header("content-security-policy").starts_with("default-src 'none'; script-src 'self';"));
    }
}

#[test]
fn a_bulk_request_is_explained_and_not_sent() {
    let mut world = world();
    let body = index(&[id_on(0, 0), id_on(1, 0)]);
    let (first, second) = body.split_at(30);
    let id = world.head("/_bulk_reshuffle/explain", &[]);
    world.data(id, first, false);
    assert!(world.engine.memory() >= 30);
    world.data(id, second, true);
    world.woken();
    let explanation = world.reply(id);
    assert_eq!(explanation["operations"], 2);
    assert_eq!(explanation["listed"][1]["id"], id_on(1, 0));
    assert_eq!(world.engine.memory(), 0);
    let whole = world.request("/_bulk_reshuffle/explain/i/_bulk?pipeline=p", &body);
    world.woken();
    assert_eq!(world.reply(whole)["because"]["reason"], "pipeline");
    let other = world.request("/_bulk_reshuffle/explain/i/_search", &body);
    world.woken();
    assert_eq!(world.replies[&other].status, 404);
    assert!(world.calls.is_empty() && world.counts.is_empty() && world.engine.is_idle());
}

#[test]
fn a_body_that_is_too_large_is_not_explained() {
    let mut world = world();
    let id = world.head("/_bulk_reshuffle/explain", &[]);
    for _ in 0..5 {
        world.data(id, vec![b' '; 1 << 20], false);
    }
    world.woken();
    assert_eq!((world.replies[&id].status, world.engine.memory()), (413, 0));
    for (lines, status) in [(5000, 200), (5002, 413)] {
        let id = world.request("/_bulk_reshuffle/explain", &index(&vec!["1".to_owned(); lines / 2]));
        world.woken();
        assert_eq!((world.replies[&id].status, world.engine.memory()), (status, 0), "{lines} lines");
    }
    for (encoding, status) in [("GZIP", 415), ("identity", 200), ("br", 200)] {
        let headers = [("content-encoding", encoding)];
        let id = world.request_with("/_bulk_reshuffle/explain", &headers, &index(&["1".to_owned()]));
        world.woken();
        assert_eq!(world.replies[&id].status, status, "{encoding}");
    }
}

#[test]
fn an_admin_request_starts_polling_for_an_unknown_state() {
    for path in ["/state", "/explain"] {
        let mut world = World::without_state(json!({"admin_path": "/_bulk_reshuffle"}));
        let path = format!("/_bulk_reshuffle{path}");
        let method = if path.ends_with("state") { "GET" } else { "POST" };
        let (status, _) = match method {
            "GET" => ask(&mut world, method, &path),
            _ => {
                let id = world.request(&path, &index(&[id_on(0, 0)]));
                world.woken();
                (world.replies[&id].status, String::new())
            }
        };
        assert_eq!((status, world.state_queries.len()), (503, 1), "{path}");
    }
}

#[test]
fn a_request_whose_body_does_not_arrive_is_answered() {
    let mut world = world();
    let id = world.head("/_bulk_reshuffle/explain", &[]);
    world.tick_after(Duration::from_millis(200));
    assert_eq!(world.replies[&id].status, 503);
    assert_eq!(world.passed_because(PassThrough::HeaderPause), 0);
    world.gone(id);
    assert!(world.engine.is_idle());
}

/// Returns a body with everything that a sample must leave out or keep.
const SAMPLED: &str = concat!(
    r#"{"index":{"_index":"i","_id":"d1","routing":"r"}}"#,
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
    let mut world = world();
    send(&mut world, 7000, "GET", "/_bulk_reshuffle/sample");
    world.request("/i/_bulk?pipeline=p", SAMPLED);
    world.request("/i/_bulk", SAMPLED);
    world.woken();
    let sample = String::from_utf8(world.replies[&7000].body.clone()).unwrap();
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
    let explained = world.request("/_bulk_reshuffle/explain", &sample);
    world.woken();
    assert_eq!(world.reply(explained)["way"], "split");
}

#[test]
fn a_request_for_a_sample_times_out() {
    let mut world = world();
    send(&mut world, 7000, "GET", "/_bulk_reshuffle/sample");
    world.woken();
    world.tick_after(Duration::from_millis(9_999));
    // A filter that is being replaced stays until then.
    assert!(world.replies.is_empty() && !world.engine.is_idle());
    world.tick_after(Duration::from_millis(1));
    assert_eq!((world.replies[&7000].status, world.engine.is_idle()), (504, true));
    send(&mut world, 7001, "GET", "/_bulk_reshuffle/sample");
    world.gone(7001);
    world.request("/_bulk", &index(&[id_on(0, 0)]));
    world.woken();
    assert!(!world.replies.contains_key(&7001));
}

#[test]
fn the_number_of_concurrent_admin_requests_is_bounded() {
    let mut world = world();
    for id in 7000..7016 {
        send(&mut world, id, "GET", "/_bulk_reshuffle/sample");
    }
    for path in ["status", "state", "sample"] {
        assert_eq!(ask(&mut world, "GET", &format!("/_bulk_reshuffle/{path}")).0, 429, "{path}");
    }
    assert_eq!(ask(&mut world, "GET", "/_bulk_reshuffle/").0, 200);
    world.gone(7007);
    assert_eq!(ask(&mut world, "GET", "/_bulk_reshuffle/status").0, 200);
    world.request("/_bulk", &index(&[id_on(0, 0)]));
    while world.replies.keys().filter(|id| (7000..7016).contains(*id)).count() < 15 {
        world.woken();
    }
    assert!((7000..7016).all(|id| id == 7007 || world.replies[&id].status == 200));
}

#[test]
fn nodes_that_have_left_do_not_lengthen_the_status() {
    let mut world = world();
    status(&mut world);
    let at_first = world.measured;
    for generation in 2..10 {
        let mut state = state();
        state["version"] = json!(generation);
        state["state_uuid"] = json!(format!("u{generation}"));
        state["nodes"] = (0..3).map(|n| (format!("n{n}"), json!({"name": format!("{generation}-{n}")}))).collect();
        world.now += Duration::from_secs(3600);
        world.load(&state);
    }
    assert!(world.engine.upstreams().ids().count() > 20);
    assert_eq!(status(&mut world)["nodes"][0]["upstream"], "9-0");
    assert_eq!(world.measured, at_first);
}
