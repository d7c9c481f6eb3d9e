use std::io::Read;
use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::harness::{Harness, id_on, index, state, zoned_state};
use crate::bulk::{Inflater, gzip as zipped};
use crate::engine::command::Call;
use crate::engine::metrics::Counter;
use crate::engine::pass_through::PassThrough;

fn gzip(plain: impl AsRef<[u8]>) -> Vec<u8> {
    zipped(plain.as_ref())
}

/// Sends a body that is declared as gzip, in chunks of this size.
fn send(harness: &mut Harness, body: &[u8], size: usize) -> u32 {
    let id = harness.head("/_bulk", &[("content-encoding", "gzip")]);
    let last = body.len().div_ceil(size).saturating_sub(1);
    for (n, piece) in body.chunks(size).enumerate() {
        harness.data(id, piece, n == last);
    }
    id
}

/// Asserts that a compressed body passes through unchanged.
fn assert_passes(config: Value, body: &[u8], size: usize, why: PassThrough) {
    let mut harness = Harness::new(config);
    let id = harness.head("/_bulk", &[("content-encoding", "gzip")]);
    let mut sent = 0;
    for piece in body.chunks(size) {
        if harness.passed.contains_key(&id) {
            break;
        }
        sent += piece.len();
        harness.data(id, piece, sent == body.len());
    }
    assert_eq!(harness.passed[&id], body[..sent], "{why:?}");
    assert_eq!(harness.passed_because(why), 1, "{why:?}");
    assert_eq!(harness.engine.memory(), 0);
}

#[test]
fn a_compressed_request_is_split_and_may_share_a_batch_with_a_plain_one() {
    let mut harness = Harness::new(json!({}));
    let ids: Vec<_> = (0..50).map(|n| id_on(n % 3, n)).collect();
    for size in [1, 10, 10_000] {
        harness.write(&[id_on(0, 99)]);
        let plain = harness.request("/_bulk", &index(&ids));
        let zipped = send(&mut harness, &gzip(index(&ids)), size);
        harness.answer("es-0");
        assert!(harness.calls[0].body.starts_with(b"{\"index\""));
        assert!(harness.calls[0].headers.iter().all(|(name, _)| name != "content-encoding"));
        harness.settle();
        assert_eq!(harness.items(zipped).len(), 50);
        assert_eq!(harness.items(zipped), harness.items(plain));
    }
    assert_eq!(harness.engine.memory(), 0);
}

#[test]
fn unaccepted_requests_pass_through_still_compressed() {
    let bad = gzip(index(&[id_on(0, 0)]) + "{}\n{}\n");
    let unfinished = gzip(index(&[id_on(0, 0)]).trim_end());
    let good = gzip(index(&[id_on(0, 0)]));
    for size in [1, 10_000] {
        assert_passes(json!({}), &bad, size, PassThrough::ActionLine);
        assert_passes(json!({}), &unfinished, size, PassThrough::Incomplete);
        assert_passes(json!({}), &good[..good.len() - 3], size, PassThrough::Gzip);
        assert_passes(json!({}), b"no gzip at all, whatever the header says", size, PassThrough::Gzip);
    }
}

#[test]
fn a_decompression_bomb_passes_through_within_the_memory_bound() {
    let limits = |request: &str, memory: &str| json!({"limits": {"max_request": request, "memory": memory}});
    let bomb = gzip("{\"index\":{\"_index\":\"i\"}}\n".to_owned() + &" ".repeat(10 << 20));
    for size in [100, 100_000] {
        assert_passes(limits("200kb", "1mb"), &bomb, size, PassThrough::TooLarge);
    }
    assert_passes(limits("200kb", "200kb"), &bomb, 100, PassThrough::Memory);
}

fn plain(call: &Call) -> String {
    let mut text = String::new();
    GzDecoder::new(call.body.as_slice()).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn batches_are_compressed_if_configured_for_every_attempt() {
    let config = json!({"dispatch": {"compress": true}, "retry": {"backoff": "10ms"}});
    let mut harness = Harness::new(config);
    let lines = index(&[id_on(0, 0)]);
    let ids = [harness.request("/_bulk", &lines), send(&mut harness, &gzip(&lines), 10)];
    harness.woken();
    let check = |call: &Call, upstream: &str| {
        assert_eq!((call.upstream.as_ref(), plain(call)), (upstream, lines.repeat(2)));
        let encodings: Vec<_> = call.headers.iter().filter(|(name, _)| name.ends_with("-encoding")).collect();
        assert_eq!(encodings, [&("content-encoding".to_owned(), "gzip".to_owned())]);
    };
    check(&harness.calls[0], "es-0");
    harness.answer_with("es-0", 429, "busy");
    harness.tick_after(Duration::from_millis(10));
    check(&harness.calls[0], "es-0");
    harness.refuse_to_send("es-0");
    check(&harness.calls[0], "es");
    let answer = r#"{"took":1,"errors":false,"items":[{"index":{"_id":"ID","status":201}},{"index":{"_id":"ID","status":200}}]}"#;
    harness.answer_with("es", 200, &answer.replace("ID", &id_on(0, 0)));
    assert_eq!(ids.map(|id| harness.items(id)), [[(id_on(0, 0), 201)], [(id_on(0, 0), 200)]]);
    let bytes = harness.counted(|counter| matches!(counter, Counter::BatchBytes(_)));
    assert_eq!(bytes, 3 * lines.len() as u64 * 2);
}

/// Returns the upstreams of the compressed batches of a request that writes to all three nodes.
fn compressed(harness: &mut Harness) -> Vec<String> {
    harness.request("/_bulk", &index(&[id_on(0, 0), id_on(1, 1), id_on(2, 2)]));
    harness.woken();
    assert_eq!(harness.calls.len(), 3);
    let is_gzip = |call: &&Call| call.headers.iter().any(|(name, _)| name == "content-encoding");
    let found: Vec<_> = harness.calls.iter().filter(is_gzip).map(|call| call.upstream.to_string()).collect();
    harness.calls.iter().for_each(|call| assert_eq!(found.contains(&call.upstream.to_string()), call.body[0] == 0x1F));
    harness.settle();
    found
}

#[test]
fn batches_for_another_zone_are_compressed() {
    for (config, zone, expected) in [
        (json!({}), Some("a"), &["es-2"][..]),
        (json!({}), Some("b"), &["es-0", "es-1"]),
        (json!({}), None, &[]),
        (json!({"dispatch": {"compress": "other_zones"}}), Some("a"), &["es-2"]),
        (json!({"dispatch": {"compress": false}}), Some("a"), &[]),
        (json!({"dispatch": {"compress": true}}), None, &["es-0", "es-1", "es-2"]),
        (json!({"nodes": {"zone": "rack"}}), Some("aa"), &["es-0", "es-2"]),
    ] {
        let mut harness = Harness::knowing(config.clone(), &zoned_state());
        if let Some(zone) = zone {
            harness.engine.set_zone(zone.to_owned());
        }
        assert_eq!(compressed(&mut harness), expected, "{config} in {zone:?}");
        assert_eq!(harness.engine.memory(), 0);
    }
}

#[test]
fn a_node_that_moves_to_another_zone_gets_compressed_batches() {
    let mut harness = Harness::knowing(json!({}), &state());
    harness.engine.set_zone("a".to_owned());
    // The zones of the nodes are not known.
    assert!(compressed(&mut harness).is_empty());
    let mut state = zoned_state();
    for (version, zone, expected) in [(2, "b", &["es-2"][..]), (3, "a", &[])] {
        state["version"] = json!(version);
        state["nodes"]["n2"]["attributes"]["zone"] = json!(zone);
        harness.tick_after(Duration::from_secs(10));
        harness.load(&state);
        assert_eq!(compressed(&mut harness), expected, "{zone}");
    }
}

#[test]
fn memory_for_compressed_copies_is_kept_only_where_batches_may_be_compressed() {
    let body = format!("{{\"index\":{{\"_index\":\"i\",\"_id\":\"1\"}}}}\n{{\"text\":{:?}}}\n", "x".repeat(200_000));
    let most = |zone: Option<&str>, compress: Value| {
        let config = json!({"dispatch": {"compress": compress}, "limits": {"max_request": "512kb", "memory": "2mb"}});
        let mut harness = Harness::knowing(config, &zoned_state());
        if let Some(zone) = zone {
            harness.engine.set_zone(zone.to_owned());
        }
        while harness.passed.is_empty() {
            harness.request("/_bulk", &body);
        }
        assert_eq!(harness.passed_because(PassThrough::Memory), 1);
        harness.engine.memory()
    };
    let without = most(Some("a"), json!(false));
    assert_eq!(most(None, json!("other_zones")), without);
    assert!(most(Some("a"), json!("other_zones")) < without);
    assert_eq!(most(Some("a"), json!("other_zones")), most(None, json!(true)));
}

#[test]
fn many_small_operations_in_one_chunk_stay_within_the_memory_bound() {
    let bomb = gzip("{\"index\":{}}\n\n".repeat(500_000));
    let mut harness = Harness::new(json!({"limits": {"max_request": "8mb", "memory": "8mb"}}));
    let id = harness.head("/i/_bulk", &[("content-encoding", "gzip")]);
    harness.data(id, &bomb, false);
    assert_eq!(harness.passed[&id], bomb);
    assert_eq!(harness.passed_because(PassThrough::Memory), 1);
}

#[test]
fn the_memory_for_inflating_is_counted_until_the_body_ends() {
    let mut harness = Harness::new(json!({}));
    harness.request("/_bulk", &index(&[id_on(0, 0)]));
    let held = harness.engine.memory();
    harness.head("/_bulk", &[]);
    let plain = harness.engine.memory() - held;
    let held = harness.engine.memory();
    let body = gzip(index(&[id_on(1, 1)]));
    let id = harness.head("/_bulk", &[("content-encoding", "gzip")]);
    assert_eq!(harness.engine.memory(), held + plain + Inflater::MEMORY);
    harness.data(id, &body[..10], false);
    harness.data(id, &body[10..], true);
    assert!((held + plain..held + Inflater::MEMORY).contains(&harness.engine.memory()), "{}", harness.engine.memory());
    harness.gone(id);
    assert_eq!(harness.engine.memory(), held);
}

#[test]
fn a_compressed_request_needs_room_to_be_inflated() {
    let mut harness = Harness::new(json!({"limits": {"max_request": "100kb", "memory": "200kb"}}));
    for _ in 0..2 {
        harness.head("/_bulk", &[("content-encoding", "gzip")]);
    }
    let taken = harness.engine.memory();
    assert!(harness.passed.is_empty() && taken > 2 * Inflater::MEMORY);
    harness.head("/_bulk", &[("content-encoding", "gzip")]);
    assert_eq!((harness.passed_because(PassThrough::Memory), harness.engine.memory()), (1, taken));
}
