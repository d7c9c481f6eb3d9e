use std::time::Duration;

use serde_json::json;

use super::world::{World, id_on, index, state};
use crate::engine::command::Response;
use crate::engine::input::Input;
use crate::engine::metrics::Counter;
use crate::routing::Unrouted;

/// Sends a request for es-0 and es-1, which is dispatched.
fn split(world: &mut World) -> u32 {
    let id = world.request("/_bulk", &index(&[id_on(0, 0), id_on(1, 0), id_on(0, 1)]));
    world.woken();
    id
}

fn statuses(world: &World, id: u32) -> Vec<u64> {
    world.items(id).into_iter().map(|(_, status)| status).collect()
}

pub fn envoy_says(world: &mut World, upstream: &str, status: u16, text: &str) {
    let call = world.take_call(upstream);
    let headers = [("content-type".to_owned(), "text/plain".to_owned())].into();
    let response = Response { status, headers, body: text.as_bytes().to_vec() };
    world.root(Input::CallAnswered { call: call.id, response });
}

pub const REFUSED: &str =
    "upstream connect error or disconnect/reset before headers. reset reason: remote connection failure";
pub const RESET: &str =
    "upstream connect error or disconnect/reset before headers. reset reason: connection termination";

#[test]
fn a_share_that_was_certainly_not_sent_goes_to_the_coordinator() {
    for not_sent in [true, false] {
        let mut world = World::new(json!({}));
        let id = split(&mut world);
        let batch = world.calls.iter().find(|call| call.upstream.as_ref() == "es-0").unwrap().body.clone();
        if not_sent {
            let call = world.take_call("es-0");
            world.root(Input::CallNotSent { call: call.id });
        } else {
            envoy_says(&mut world, "es-0", 503, REFUSED);
        }
        assert_eq!(world.upstreams(), ["es-1", "es"]);
        assert_eq!(world.calls[1].body, batch);
        world.settle();
        assert_eq!(statuses(&world, id), [201, 201, 201]);
    }
}

#[test]
fn the_coordinator_may_need_several_attempts_to_find_a_live_node() {
    let mut world = World::new(json!({}));
    let id = split(&mut world);
    envoy_says(&mut world, "es-0", 503, REFUSED);
    for _ in 0..4 {
        envoy_says(&mut world, "es", 503, REFUSED);
    }
    world.settle();
    assert_eq!(statuses(&world, id), [201, 201, 201]);
}

#[test]
fn a_missing_upstream_is_not_used_again_until_the_next_poll() {
    let mut world = World::new(json!({}));
    split(&mut world);
    let call = world.take_call("es-0");
    world.root(Input::CallNotSent { call: call.id });
    world.settle();
    let unrouted = |world: &World| world.counts.get(&Counter::OperationsUnrouted(Unrouted::Upstream)).copied();
    assert_eq!(unrouted(&world), None);
    let id = world.request("/_bulk", &index(&[id_on(0, 0), id_on(1, 0)]));
    world.woken();
    assert_eq!((world.upstreams(), unrouted(&world)), (vec!["es", "es-1"], Some(1)));
    world.settle();
    assert_eq!(statuses(&world, id), [201, 201]);
    world.load(&state());
    world.request("/_bulk", &index(&[id_on(0, 0), id_on(1, 0)]));
    world.woken();
    assert_eq!(world.upstreams(), ["es-0", "es-1"]);
}

#[test]
fn if_the_coordinator_cannot_be_reached_either_the_client_gets_an_error() {
    let mut world = World::new(json!({}));
    let id = world.request("/_bulk", &index(&[id_on(0, 0)]));
    world.woken();
    envoy_says(&mut world, "es-0", 503, REFUSED);
    for _ in 0..5 {
        envoy_says(&mut world, "es", 503, "no healthy upstream");
    }
    assert_eq!(world.replies[&id].status, 503);
    assert_eq!(world.reply(id)["error"]["type"], "no_upstream_exception");
    let id = split(&mut world);
    envoy_says(&mut world, "es-0", 503, REFUSED);
    for _ in 0..5 {
        envoy_says(&mut world, "es", 503, REFUSED);
    }
    world.settle();
    assert_eq!(statuses(&world, id), [503, 201, 503]);
}

#[test]
fn an_unknown_outcome_is_reported_and_not_retried() {
    for (fail, status) in [
        (&(|world: &mut World| envoy_says(world, "es-0", 504, "upstream request timeout")) as &dyn Fn(&mut World), 504),
        (
            &|world: &mut World| {
                let call = world.take_call("es-0");
                world.root(Input::CallFailed { call: call.id });
            },
            503,
        ),
    ] {
        let mut world = World::new(json!({}));
        let id = split(&mut world);
        fail(&mut world);
        assert_eq!(world.upstreams(), ["es-1"]);
        world.settle();
        assert_eq!(statuses(&world, id), [status, 201, status]);
        let reply = world.reply(id);
        assert_eq!(reply["errors"], true);
        assert_eq!(reply["items"][0]["index"]["_index"], "i");
        assert_eq!(reply["items"][0]["index"]["error"]["type"], "bulk_outcome_unknown_exception");
    }
}

#[test]
fn a_lost_idempotent_batch_is_retried() {
    let mut world = World::new(json!({}));
    let id = split(&mut world);
    let batch = world.calls.iter().find(|call| call.upstream.as_ref() == "es-0").unwrap().body.clone();
    envoy_says(&mut world, "es-0", 503, RESET);
    assert_eq!(world.upstreams(), ["es-1"]);
    world.tick_after(Duration::from_millis(24));
    assert_eq!(world.upstreams(), ["es-1"]);
    world.tick_after(Duration::from_millis(26));
    assert_eq!(world.upstreams(), ["es-1", "es-0"]);
    assert_eq!(world.calls[1].body, batch);
    world.settle();
    assert_eq!(statuses(&world, id), [201, 201, 201]);
    world.load(&state());
    assert!(world.engine.is_idle());
}

#[test]
fn operations_that_may_have_been_carried_out_are_never_reported_as_refused() {
    let endings: [&dyn Fn(&mut World); 2] = [&|world| world.answer_with("es-0", 400, TOO_MUCH), &|world| {
        envoy_says(world, "es-0", 503, REFUSED);
        (0..5).for_each(|_| envoy_says(world, "es", 503, REFUSED));
    }];
    for end in endings {
        let mut world = World::new(json!({"cluster_state": {"refresh": "1h"}}));
        let id = world.request("/_bulk", &index(&[id_on(0, 0)]));
        world.woken();
        envoy_says(&mut world, "es-0", 503, RESET);
        world.tick_after(Duration::from_millis(50));
        end(&mut world);
        assert_eq!(statuses(&world, id), [503]);
        assert_eq!(world.reply(id)["items"][0]["index"]["error"]["type"], "bulk_outcome_unknown_exception");
    }
}

#[test]
fn a_lost_batch_that_is_not_idempotent_is_not_retried() {
    let (first, second, third) = (id_on(0, 0), id_on(1, 0), id_on(0, 1));
    for line in [
        format!("{{\"create\":{{\"_index\":\"i\",\"_id\":\"{third}\"}}}}\n{{}}\n"),
        format!("{{\"update\":{{\"_index\":\"i\",\"_id\":\"{third}\"}}}}\n{{\"doc\":{{}}}}\n"),
        format!("{{\"index\":{{\"_index\":\"i\",\"routing\":\"{third}\"}}}}\n{{}}\n"),
    ] {
        let mut world = World::new(json!({"missing_id": "pass"}));
        let id = world.request("/_bulk", &(index(&[first.clone(), second.clone()]) + &line));
        world.woken();
        envoy_says(&mut world, "es-0", 503, RESET);
        world.settle();
        assert_eq!(statuses(&world, id), [503, 201, 503]);
        world.tick_after(Duration::from_secs(60));
        assert!(world.calls.iter().all(|call| call.upstream.as_ref() == "es"));
    }
}

const TOO_MUCH: &str = r#"{"error":{"type":"circuit_breaking_exception","reason":"too much"},"status":429}"#;

#[test]
fn a_batch_refused_with_429_is_retried_with_growing_delays() {
    let mut world = World::new(json!({"cluster_state": {"refresh": "1h"}, "retry": {"attempts": 3}}));
    let id = split(&mut world);
    world.answer("es-1");
    // Requests that arrive meanwhile wait too, because the node is busy.
    let later = world.request("/_bulk", &index(&[id_on(0, 5)]));
    for longest in [50, 100, 200] {
        world.answer_with("es-0", 429, TOO_MUCH);
        assert!(world.calls.is_empty());
        world.tick_after(Duration::from_millis(longest / 2 - 1));
        assert!(world.calls.is_empty());
        world.tick_after(Duration::from_millis(longest / 2 + 1));
        assert_eq!(world.upstreams(), ["es-0"]);
    }
    world.answer_with("es-0", 429, TOO_MUCH);
    assert_eq!(statuses(&world, id), [429, 201, 429]);
    world.settle();
    assert_eq!(statuses(&world, later), [201]);
    assert!(world.engine.is_idle());
}

#[test]
fn nothing_is_retried_after_its_timeout() {
    let mut world = World::new(json!({"dispatch": {"timeout": "60ms"}}));
    let id = split(&mut world);
    world.answer("es-1");
    world.now += Duration::from_millis(40);
    world.answer_with("es-0", 429, TOO_MUCH);
    assert_eq!(statuses(&world, id), [429, 201, 429]);
    assert!(world.engine.is_idle());
}

#[test]
fn a_refusal_of_some_shares_becomes_the_error_of_their_items() {
    let mut world = World::new(json!({"retry": {"attempts": 0}}));
    let id = split(&mut world);
    world.answer_with("es-0", 429, TOO_MUCH);
    world.settle();
    assert_eq!(statuses(&world, id), [429, 201, 429]);
    assert_eq!(world.reply(id)["items"][2]["index"]["error"]["reason"], "too much");
    let id = split(&mut world);
    world.answer_with("es-1", 500, "<html>");
    world.settle();
    assert_eq!(statuses(&world, id), [201, 500, 201]);
    assert_eq!(world.reply(id)["items"][1]["index"]["error"]["type"], "bulk_refused_exception");
    let id = split(&mut world);
    world.answer_with("es-0", 400, "{}");
    assert_eq!(world.upstreams(), ["es-1"]);
    world.settle();
    assert_eq!(statuses(&world, id), [400, 201, 400]);
}

#[test]
fn a_refusal_of_all_shares_is_forwarded_to_the_client() {
    let mut world = World::new(json!({}));
    let id = split(&mut world);
    for upstream in ["es-1", "es-0"] {
        let call = world.take_call(upstream);
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers =
            [header("www-authenticate", "Basic"), header("content-length", "99"), header("date", "now")].into();
        let response = Response { status: 401, headers, body: b"who are you".to_vec() };
        world.root(Input::CallAnswered { call: call.id, response });
    }
    let reply = &world.replies[&id];
    assert_eq!((reply.status, reply.body.as_slice()), (401, &b"who are you"[..]));
    assert_eq!(*reply.headers, [("www-authenticate".to_owned(), "Basic".to_owned())]);
}

#[test]
fn only_the_offending_request_of_a_refused_batch_gets_the_error() {
    let mut world = World::new(json!({}));
    world.request("/_bulk", &index(&[id_on(0, 9)]));
    world.woken();
    let ids = [0, 1, 2].map(|n| world.request("/_bulk", &index(&[id_on(0, n)])));
    world.answer("es-0");
    world.answer_with("es-0", 400, r#"{"error":{"type":"x","reason":"somebody's fault"},"status":400}"#);
    // The requests are sent one after the other, each alone, before all later ones.
    assert_eq!(world.upstreams(), ["es-0"; 3]);
    let bodies: Vec<_> = world.calls.iter().map(|call| call.body.clone()).collect();
    assert_eq!(bodies, [0, 1, 2].map(|n| index(&[id_on(0, n)]).into_bytes()));
    let calls = std::mem::take(&mut world.calls);
    for (n, call) in calls.into_iter().enumerate() {
        world.calls.push(call);
        match n {
            1 => world.answer_with("es-0", 400, r#"{"error":"mine","status":400}"#),
            _ => world.answer("es-0"),
        }
    }
    assert_eq!(statuses(&world, ids[0]), [201]);
    assert_eq!((world.replies[&ids[1]].status, world.reply(ids[1])["error"].as_str()), (400, Some("mine")));
    assert_eq!(statuses(&world, ids[2]), [201]);
    assert!(world.engine.is_idle());
}

#[test]
fn a_merged_batch_refused_because_of_its_caller_or_node_is_not_retried() {
    for status in [401, 429, 500, 503] {
        let mut world = World::new(json!({"retry": {"attempts": 0}}));
        world.request("/_bulk", &index(&[id_on(0, 9)]));
        world.woken();
        let ids = [0, 1].map(|n| world.request("/_bulk", &index(&[id_on(0, n)])));
        world.answer("es-0");
        world.answer_with("es-0", status, "{}");
        assert!(world.calls.is_empty());
        assert!(ids.iter().all(|id| world.replies[id].status == status));
    }
}

#[test]
fn warnings_of_all_nodes_are_forwarded_once() {
    let mut world = World::new(json!({}));
    let id = split(&mut world);
    for (upstream, warning) in [("es-0", "a"), ("es-1", "a")] {
        let call = world.take_call(upstream);
        let count = if upstream == "es-0" { 2 } else { 1 };
        let ids: Vec<_> = (0..count).map(|n| id_on(usize::from(upstream == "es-1"), n)).collect();
        let items: Vec<_> = ids.iter().map(|id| json!({"index": {"_index": "i", "_id": id, "status": 201}})).collect();
        let headers = [("warning", warning), ("x-elastic-product", warning), ("warning", upstream)];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let body = json!({"errors": false, "took": 1, "items": items}).to_string().into_bytes();
        world.root(Input::CallAnswered { call: call.id, response: Response { status: 200, headers, body } });
    }
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        *world.replies[&id].headers,
        [
            header("warning", "a"),
            header("x-elastic-product", "a"),
            header("warning", "es-0"),
            header("warning", "es-1")
        ]
    );
    assert!(world.replies[&id].body.starts_with(b"{\"errors\":false,\"took\":1,"));
}
