use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Harness, id_on, index, operation, sent, state};
use crate::engine::command::{Call, Response};
use crate::engine::input::Input;
use crate::engine::metrics::Counter;
use crate::engine::pass_through::PassThrough;
use crate::routing::Unrouted;

#[test]
fn each_node_gets_its_operations_and_the_client_its_items_in_order() {
    let mut harness = Harness::new(json!({}));
    let ids: Vec<_> = [2, 0, 1, 0, 2].iter().enumerate().map(|(n, node)| id_on(*node, n)).collect();
    let id = harness.request("/_bulk", &index(&ids));
    assert_eq!(harness.wake_ups, 1);
    assert!(!harness.engine.is_idle() && harness.engine.memory() > index(&ids).len() as u64);
    harness.woken();
    let on = |n: usize| index(&ids[n..=n]);
    assert_eq!(harness.bodies_to("es-0"), [on(1) + &on(3)]);
    assert_eq!(harness.bodies_to("es-1"), [on(2)]);
    assert_eq!(harness.bodies_to("es-2"), [on(0) + &on(4)]);
    for upstream in ["es-1", "es-2", "es-0"] {
        assert!(harness.replies.is_empty());
        harness.answer(upstream);
    }
    assert_eq!(harness.items(id), ids.iter().map(|id| (id.clone(), 201)).collect::<Vec<_>>());
    assert_eq!(harness.reply(id)["took"], 5);
    harness.assert_idle();
}

#[test]
fn actions_index_routing_and_alias_come_from_line_path_or_query() {
    let mut harness = Harness::new(json!({}));
    let (here, there) = (id_on(0, 0), id_on(1, 0));
    let body = format!(
        "{{\"create\":{{\"_id\":\"{here}\"}}}}\n{{}}\n{{\"delete\":{{\"_id\":\"{there}\",\"routing\":\"{here}\"}}}}\n"
    );
    let line = harness.request("/i/_bulk", &body);
    let update = operation("update", "a", &here, &json!({}));
    let named = index(&[there.clone(), here.clone()]) + &update;
    let query = harness.send(&format!("/_bulk?routing={here}"), &named);
    assert_eq!(harness.upstreams(), ["es-0", "es-0"]);
    assert_eq!(harness.calls[0].headers[2], (":path".to_owned(), "/i/_bulk".to_owned()));
    harness.settle();
    assert_eq!(harness.items(line), [(here.clone(), 201), (there.clone(), 404)]);
    assert_eq!(harness.items(query), [(there, 201), (here.clone(), 201), (here, 201)]);
}

#[test]
fn a_request_for_a_single_node_gets_that_nodes_answer_unchanged() {
    let mut harness = Harness::new(json!({}));
    for answer in ["{ \"took\" : 1 }", "not even JSON"] {
        let id = harness.write(&[id_on(0, 0), id_on(0, 1)]);
        harness.answer_with("es-0", 200, answer);
        assert_eq!(harness.replies[&id].body, answer.as_bytes());
    }
}

#[test]
fn operations_without_an_id_stay_together_and_requests_alternate_between_nodes() {
    let mut harness = Harness::new(json!({}));
    let body = "{\"index\":{\"_index\":\"i\"}}\n{}\n".repeat(5);
    let ids: Vec<_> = (0..6).map(|_| harness.request("/_bulk", &body)).collect();
    harness.woken();
    let mut upstreams = harness.upstreams();
    upstreams.sort_unstable();
    assert_eq!(upstreams, ["es-0", "es-1", "es-2"]);
    harness.settle();
    for id in ids {
        assert_eq!(harness.items(id).len(), 5);
    }
}

#[test]
fn an_unaccepted_request_passes_through_unchanged() {
    let mut harness = Harness::new(json!({}));
    let good = index(&[id_on(0, 0), id_on(1, 0)]);
    for (rest, why) in [
        ("{\"delete\":{\"_index\":\"i\"}}\n", PassThrough::ActionLine),
        ("{\"delete\":{\"_index\":\"i\",\"_id\":\"1\"}}", PassThrough::Incomplete),
        ("{\"index\":{\"_index\":\"x\"}}\n{}\n", PassThrough::Unrouted(Unrouted::UnknownIndex)),
        ("{\"index\":{}}\n{}\n", PassThrough::Unrouted(Unrouted::NoIndex)),
        ("{\"update\":{\"_index\":\"i\",\"_id\":\"1\"}}\n[]\n", PassThrough::UpdateBody),
    ] {
        let body = good.clone() + rest;
        let (first, second) = body.split_at(good.len() + 5);
        let id = harness.head("/_bulk", &[]);
        harness.data(id, first, false);
        assert!(!harness.passed.contains_key(&id), "passed before anything was wrong");
        harness.data(id, second, true);
        assert_eq!(harness.passed[&id], body.as_bytes(), "{why:?}");
        assert_eq!(harness.passed_because(why), 1, "{why:?}");
    }
    harness.woken();
    assert!(harness.calls.is_empty());
    harness.assert_idle();
}

#[test]
fn without_a_state_requests_pass_through_while_it_is_polled() {
    let mut harness = Harness::without_state(json!({"credentials": {"authorization": "ApiKey x"}}));
    assert!(harness.timer.is_none());
    let id = harness.request("/_bulk", &index(&[id_on(0, 0)]));
    assert!(harness.passed.contains_key(&id));
    assert_eq!(harness.passed_because(PassThrough::NoState), 1);
    assert_eq!(harness.wake_ups, 1);
    harness.woken();
    let call = harness.state_queries.remove(0);
    assert!(call.headers.contains(&("authorization".to_owned(), "ApiKey x".to_owned())));
    assert!(call.headers.iter().any(|(name, value)| name == ":path" && value.starts_with("/_cluster/state/")));
}

#[test]
fn an_unanswered_state_query_is_repeated() {
    let mut harness = Harness::without_state(json!({"cluster_state": {"refresh": "4s"}}));
    harness.send("/_bulk", "");
    for failure in 1..=3 {
        // It is repeated at once a few times, and then after the interval.
        for _ in 0..[2, 6, 1][failure as usize - 1] {
            let call = harness.state_queries.remove(0).id;
            harness.root(match failure {
                1 => Input::CallFailed { call },
                2 => Input::CallNotSent { call, has_upstream: true },
                _ => Input::CallAnswered { call, response: Response { status: 403, ..Response::default() } },
            });
        }
        assert_eq!(harness.counts[&Counter::StateErrors], failure);
        harness.woken();
        assert!(harness.state_queries.is_empty());
        harness.tick_after(Duration::from_secs(4));
        assert_eq!(harness.state_queries.len(), 1);
    }
}

#[test]
fn requests_pass_through_while_the_state_is_stale() {
    let mut harness = Harness::new(json!({"cluster_state": {"refresh": "2s", "stale_after": "10s"}}));
    let body = index(&[id_on(0, 0)]);
    for seconds in 0..14 {
        let id = harness.request("/_bulk", &body);
        assert_eq!(harness.passed.contains_key(&id), seconds >= 12, "after {seconds} s");
        harness.woken();
        harness.settle();
        harness.tick_after(Duration::from_secs(1));
        while let Some(Call { id: call, .. }) = harness.state_queries.pop() {
            harness.root(Input::CallAnswered { call, response: Response { status: 403, ..Response::default() } });
        }
    }
    assert_eq!(harness.passed_because(PassThrough::NoState), 2);
    harness.tick_after(Duration::from_secs(2));
    harness.load(&state());
    let id = harness.send("/_bulk", &body);
    harness.settle();
    assert!(harness.replies.contains_key(&id));
}

#[test]
fn a_body_that_takes_longer_than_a_table_may_age_passes_through() {
    let config = json!({"cluster_state": {"refresh": "2s", "stale_after": "10s"}});
    let body = index(&[id_on(0, 0)]);
    for (seconds, changes, passes) in [(9, true, false), (11, true, true), (11, false, false)] {
        let mut harness = Harness::new(config.clone());
        let id = harness.head("/_bulk", &[]);
        let (first, rest) = body.split_at(20);
        harness.data(id, first, false);
        harness.tick_after(Duration::from_secs(seconds));
        let mut known = state();
        if changes {
            known["version"] = json!(99);
            known["state_uuid"] = json!("changed");
            known["metadata"]["indices"]["i"]["version"] = json!(99);
        }
        harness.load(&known);
        harness.data(id, rest, true);
        assert_eq!(harness.passed.contains_key(&id), passes, "{seconds} s, changed: {changes}");
        assert_eq!(harness.passed_because(PassThrough::NoState), u64::from(passes));
        if passes {
            assert_eq!(harness.passed[&id], body.as_bytes());
        }
    }
}

#[test]
fn a_body_of_exactly_the_maximum_size_is_accepted() {
    let body = index(&[id_on(0, 0)]);
    let mut harness = Harness::new(json!({"limits": {"max_request": format!("{}b", body.len())}}));
    let length = body.len().to_string();
    let id = harness.request_with("/_bulk", &[("content-length", &length)], &body);
    assert!(!harness.passed.contains_key(&id));
    let id = harness.request("/_bulk", &(body + "\n"));
    assert!(harness.passed.contains_key(&id));
}

#[test]
fn a_body_beyond_a_bound_passes_through() {
    let body = index(&[id_on(0, 0)]);
    let mut unbounded = Harness::new(json!({}));
    let head = unbounded.head("/_bulk", &[]);
    let least = unbounded.engine.memory();
    unbounded.data(head, &body, true);
    let room = 2 * unbounded.engine.memory() + least + body.len() as u64 - 1;
    let mut harness = Harness::new(json!({"limits": {"max_request": "100b", "memory": format!("{room}b")}}));
    let announced = harness.head("/_bulk", &[("content-length", "101")]);
    assert_eq!(harness.passed[&announced], b"");
    let large = harness.head("/_bulk", &[]);
    harness.data(large, &body, false);
    harness.data(large, " ".repeat(60), false);
    assert_eq!(harness.passed[&large].len(), body.len() + 60);
    assert_eq!(harness.passed_because(PassThrough::TooLarge), 2);
    assert_eq!(harness.engine.memory(), 0);
    let held = [0, 1].map(|n| harness.request("/_bulk", &index(&[id_on(0, n)])));
    assert!(!harness.passed.contains_key(&held[0]));
    let crowd = harness.request("/_bulk", &index(&[id_on(0, 2)]));
    assert_eq!(harness.passed[&crowd], index(&[id_on(0, 2)]).as_bytes());
    assert_eq!(harness.passed_because(PassThrough::Memory), 1);
    let waiting = harness.head("/_bulk", &[]);
    assert!(!harness.passed.contains_key(&waiting));
    let crowd = harness.head("/_bulk", &[]);
    assert_eq!((harness.passed[&crowd].len(), harness.passed_because(PassThrough::Memory)), (0, 2));
    harness.gone(waiting);
    harness.woken();
    harness.finish();
}

/// Sends a request whose first answer waits for the second, with this `limits.memory`. Returns its id and the memory in
/// use.
fn kept(memory: &str) -> (Harness, u32, u64) {
    let mut harness =
        Harness::new(json!({"limits": {"memory": memory, "max_request": "1kb"}, "cluster_state": {"refresh": "1h"}}));
    let id = harness.write(&[id_on(0, 0), id_on(1, 0)]);
    let error = json!({"type": "t", "reason": "x".repeat(10_000)});
    let item = json!({"index": {"_index": "i", "_id": id_on(0, 0), "status": 400, "error": error}});
    harness.answer_items("es-0", &json!([item]));
    let memory = harness.engine.memory();
    (harness, id, memory)
}

#[test]
fn an_answer_that_waits_for_another_is_counted() {
    let (mut harness, id, memory) = kept("28kb");
    assert!(memory >= 10_000, "{memory}");
    let crowd: Vec<u32> = (0..8).map(|n| harness.request("/_bulk", &index(&[id_on(2, n)]))).collect();
    let passed = crowd.iter().filter(|id| harness.passed.contains_key(id)).count() as u64;
    assert!((1..8).contains(&passed), "{passed}");
    assert_eq!(harness.passed_because(PassThrough::Memory), passed);
    harness.finish();
    assert_eq!(harness.reply(id)["items"][0]["index"]["error"]["reason"].as_str().map(str::len), Some(10_000));
}

#[test]
fn the_long_items_of_an_answer_without_room_are_shortened() {
    let (mut harness, id, memory) = kept("10kb");
    assert!(memory < 10_000, "{memory}");
    harness.settle();
    let reply = harness.reply(id);
    let (first, error) = (&reply["items"][0]["index"], &reply["items"][0]["index"]["error"]);
    assert_eq!((&first["_id"], &first["status"], &error["type"]), (&json!(id_on(0, 0)), &json!(400), &json!("t")));
    assert_eq!(error["reason"], json!(format!("{}…", "x".repeat(160))));
    assert_eq!(harness.items(id)[1], (id_on(1, 0), 201));
    assert_eq!(harness.engine.memory(), 0);
}

/// Answers the oldest call to an upstream with a cookie.
fn answer_with_cookie(harness: &mut Harness, upstream: &str, status: u16) {
    let operations = sent(harness.bodies_to(upstream).remove(0).as_bytes());
    let items: Vec<Value> = operations.into_iter().map(|sent| sent.item(&json!({"status": 201}))).collect();
    let body = if status == 200 { json!({"took": 1, "errors": false, "items": items}) } else { json!({"error": "no"}) };
    let headers =
        [("content-type", "application/json"), ("set-cookie", "sid=1"), ("x-elastic-product", "Elasticsearch")];
    harness.respond(upstream, status, &headers, &body.to_string());
}

/// Returns the names of the headers of a reply.
fn names(harness: &Harness, id: u32) -> Vec<&str> {
    harness.replies[&id].headers.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_cookie_is_forwarded_only_to_a_request_that_is_alone_in_its_batch() {
    const ALONE: &[&str] = &["content-type", "set-cookie", "x-elastic-product"];
    const SHARED: &[&str] = &["content-type", "x-elastic-product"];
    for (requests, expected) in [(1, ALONE), (2, SHARED)] {
        for status in [200, 401, 500] {
            let mut harness = Harness::new(json!({"hold": {"early_release": false, "interval": "20ms"}}));
            let ids = harness.hold(0, requests);
            harness.tick_after(Duration::from_millis(20));
            assert_eq!(harness.upstreams(), ["es-0"]);
            answer_with_cookie(&mut harness, "es-0", status);
            for id in ids {
                assert_eq!(harness.replies[&id].status, status);
                assert_eq!(names(&harness, id), expected, "{requests} requests, {status}");
            }
        }
    }
}

#[test]
fn a_merged_answer_has_no_cookie() {
    let (mut harness, id) = Harness::writing(json!({}), &[id_on(0, 0), id_on(1, 0)]);
    answer_with_cookie(&mut harness, "es-0", 200);
    answer_with_cookie(&mut harness, "es-1", 200);
    assert_eq!(names(&harness, id), ["content-type", "x-elastic-product"]);
}

/// OpenSearch 3 says `forced_refresh` in the item of an update that changes nothing if the batch changes its shard.
#[test]
fn updates_whose_items_say_whether_the_shard_was_refreshed_share_no_batch_with_other_requests() {
    let (write, update) = (index(&[id_on(0, 0)]), operation("update", "i", &id_on(0, 1), &json!({})));
    let both = write.clone() + &update;
    for (query, expected) in [
        ("?refresh", [&write.repeat(2), &update, &both, &both].map(String::clone).to_vec()),
        ("?refresh=wait_for", [&write.repeat(2), &update, &both, &both].map(String::clone).to_vec()),
        ("?refresh=false", vec![[&write, &update, &both, &both, &write].map(String::as_str).concat()]),
        ("", vec![[&write, &update, &both, &both, &write].map(String::as_str).concat()]),
    ] {
        let mut harness = Harness::new(json!({"hold": {"early_release": false}}));
        for body in [&write, &update, &both, &both, &write] {
            harness.request(&format!("/_bulk{query}"), body);
        }
        harness.tick_after(Duration::from_secs(1));
        let mut sent = harness.bodies();
        sent.sort_by_key(|body| expected.iter().position(|other| other == body));
        assert_eq!(sent, expected, "{query}");
        harness.settle();
        assert_eq!(harness.replies.len(), 5);
    }
}
