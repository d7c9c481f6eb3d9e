use serde_json::{Value, json};

use super::harness::{Harness, id_on, index};

fn body(harness: &Harness, id: u32) -> String {
    String::from_utf8(harness.replies[&id].body.clone()).unwrap()
}

#[test]
fn requests_that_differ_only_in_response_parameters_share_a_batch() {
    let mut harness = Harness::new(json!({}));
    let lines = index(&[id_on(0, 0), id_on(1, 0)]);
    let queries = ["", "?filter_path=errors", "?filter_path=items.*.status", "?filter_path=items.*.error"];
    let ids: Vec<_> = queries.iter().map(|query| harness.request(&format!("/_bulk{query}"), &lines)).collect();
    harness.woken();
    assert_eq!(harness.upstreams(), ["es-0", "es-1"]);
    assert_eq!(harness.calls[0].headers[2], (":path".to_owned(), "/_bulk".to_owned()));
    harness.settle();
    assert_eq!(harness.items(ids[0]), [(id_on(0, 0), 201), (id_on(1, 0), 201)]);
    assert_eq!(body(&harness, ids[1]), r#"{"errors":false}"#);
    assert_eq!(body(&harness, ids[2]), r#"{"items":[{"index":{"status":201}},{"index":{"status":201}}]}"#);
    assert_eq!(body(&harness, ids[3]), "{}");
}

#[test]
fn the_answer_to_a_lone_request_is_filtered() {
    let mut harness = Harness::new(json!({}));
    let id = harness.send("/_bulk?filter_path=errors&refresh=true", &index(&[id_on(0, 0)]));
    assert_eq!(harness.calls[0].headers[2], (":path".to_owned(), "/_bulk?refresh=true".to_owned()));
    harness.answer_with("es-0", 200, r#"{"took":1,"errors":false,"items":[]}"#);
    assert_eq!(body(&harness, id), r#"{"errors":false}"#);
}

#[test]
fn errors_from_the_filter_are_filtered_but_refusals_are_not() {
    let mut harness = Harness::new(json!({}));
    let path = "/_bulk?filter_path=errors,items.*.error.type";
    let (mixed, refused) = ([id_on(0, 0), id_on(1, 0)], [id_on(2, 0)]);
    let mixed = harness.request(path, &index(&mixed));
    let refused = harness.send(path, &index(&refused));
    harness.answer("es-0");
    harness.answer_with("es-1", 200, "no answer");
    let refusal = r#"{"error":{"type":"t","reason":"r"},"status":400}"#;
    harness.answer_with("es-2", 400, refusal);
    assert_eq!(
        body(&harness, mixed),
        r#"{"errors":true,"items":[{"index":{"error":{"type":"bulk_outcome_unknown_exception"}}}]}"#
    );
    assert_eq!((harness.replies[&refused].status, body(&harness, refused).as_str()), (400, refusal));
}

#[test]
fn every_answer_is_indented_if_the_client_requests_it() {
    let mut harness = Harness::new(json!({}));
    let lines = index(&[id_on(0, 0), id_on(1, 0)]);
    let ids = ["", "?pretty", "?pretty=true&filter_path=errors", "?pretty=false"]
        .map(|query| harness.request(&format!("/_bulk{query}"), &lines));
    let refused = harness.send("/_bulk?pretty", &index(&[id_on(2, 0)]));
    assert_eq!(harness.upstreams(), ["es-0", "es-1", "es-2"]);
    assert_eq!(harness.calls[0].headers[2], (":path".to_owned(), "/_bulk".to_owned()));
    harness.answer_with("es-2", 400, r#"{"error":{"root_cause":[]},"status":400}"#);
    harness.answer("es-0");
    harness.answer_with("es-1", 200, "no answer");
    assert!(body(&harness, ids[1]).contains("\n          \"type\" : \"bulk_outcome_unknown_exception\",\n"));
    assert_eq!(serde_json::from_str::<Value>(&body(&harness, ids[1])).unwrap(), harness.reply(ids[0]));
    assert_eq!(body(&harness, ids[2]), "{\n  \"errors\" : true\n}\n");
    assert_eq!(body(&harness, ids[3]), body(&harness, ids[0]));
    let refusal = "{\n  \"error\" : {\n    \"root_cause\" : [ ]\n  },\n  \"status\" : 400\n}\n";
    assert_eq!((harness.replies[&refused].status, body(&harness, refused).as_str()), (400, refusal));
    // A response that is not JSON stays unchanged.
    let id = harness.send("/_bulk?pretty", &index(&[id_on(2, 0)]));
    harness.answer_with("es-2", 403, "Forbidden");
    assert_eq!(body(&harness, id), "Forbidden");
}
