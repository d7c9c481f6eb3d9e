//! The published metrics, and when they are published.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::harness::{Harness, MILLISECOND, header_map, id_on, index};
use crate::engine::command::RequestId;
use crate::engine::input::Input;
use crate::engine::metrics::{Counter, Gauge, Histogram, MetricEvents};
use crate::engine::pass_through::PassThrough;

const INTERVAL: Duration = Duration::from_millis(100);

/// Creates a harness without cluster-state polls for a while, so that time can pass.
fn harness() -> Harness {
    Harness::quiet(&json!({"header_pause": "stop"}))
}

/// Returns the gauges of one upstream, without their labels.
fn gauges_of(harness: &Harness, upstream: &str) -> BTreeMap<String, u64> {
    let upstreams = harness.engine.upstreams();
    let end = format!(".upstream.{upstream}.coordinator.es");
    let gauges = harness.engine.gauges().into_iter();
    let of_upstream = gauges.filter_map(|(gauge, value)| {
        let name = gauge.name(upstreams);
        let name = name.strip_prefix("bulk_reshuffle_")?.strip_suffix(&end)?;
        Some((name.to_owned(), value))
    });
    of_upstream.filter(|(name, _)| name != "slots").collect()
}

fn gauges<const N: usize>(expected: [(&str, u64); N]) -> BTreeMap<String, u64> {
    expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[test]
fn events_are_published_at_once_when_no_request_is_pending() {
    let mut harness = harness();
    assert!(!harness.engine.is_due());
    let request = RequestId(9);
    harness.engine.handle(head(request), harness.now);
    assert!(!harness.engine.is_due());
    harness.engine.handle(Input::RequestEnd { request }, harness.now);
    assert!(harness.engine.is_due(), "it is empty, and passes through");
    let mut events = MetricEvents::default();
    harness.engine.take_events(&mut events);
    assert_eq!(events.counts[&Counter::RequestsPassedThrough(PassThrough::Empty)], 1);
    assert!(!harness.engine.is_due());
}

#[test]
fn events_are_published_ten_times_a_second_while_requests_are_pending() {
    let mut harness = harness();
    harness.now += INTERVAL;
    harness.root(Input::Tick);
    harness.engine.handle(head(RequestId(9)), harness.now);
    assert!(!harness.engine.is_due());
    harness.now += INTERVAL - MILLISECOND;
    harness.engine.handle(Input::Tick, harness.now);
    assert!(!harness.engine.is_due());
    let commands: Vec<_> = std::iter::from_fn(|| harness.engine.poll_root()).collect();
    assert!(format!("{commands:?}").contains("SetTimer(1ms)"), "{commands:?}");
    harness.now += MILLISECOND;
    harness.engine.handle(Input::Tick, harness.now);
    assert!(harness.engine.is_due());
    harness.engine.take_events(&mut MetricEvents::default());
    // Time alone does not make metrics due.
    harness.now += INTERVAL;
    harness.engine.handle(Input::Tick, harness.now);
    assert!(!harness.engine.is_due());
}

fn head(request: RequestId) -> Input {
    let headers = header_map(&[(":method", "POST"), (":path", "/_bulk"), ("content-type", "application/json")]);
    Input::RequestHead { request, headers, route: Some(b"es".to_vec()), end: false }
}

#[test]
fn held_and_in_flight_operations_are_reported_for_each_upstream() {
    let mut harness = harness();
    let (first, second) = (index(&[id_on(0, 0), id_on(0, 1)]), index(&[id_on(0, 2)]));
    harness.request("/_bulk", &first);
    let bytes = first.len() as u64;
    let held = gauges([("held_requests", 1), ("held_operations", 2), ("held_bytes", bytes)]);
    assert_eq!(gauges_of(&harness, "es-0"), held);
    harness.woken();
    let sent = gauges([("in_flight_batches", 1), ("in_flight_operations", 2), ("in_flight_bytes", bytes)]);
    assert_eq!(gauges_of(&harness, "es-0"), sent);
    // Two more requests wait behind it, and one whose client disconnects.
    harness.request("/_bulk", &second);
    let leaver = harness.request("/_bulk", &second);
    harness.gone(leaver);
    let mut both = gauges([("held_requests", 2), ("held_operations", 1), ("held_bytes", second.len() as u64)]);
    both.extend(sent);
    assert_eq!(gauges_of(&harness, "es-0"), both);
    assert!(gauges_of(&harness, "es-1").is_empty());
    harness.answer("es-0");
    harness.tick_after(10 * MILLISECOND);
    harness.settle();
    assert!(gauges_of(&harness, "es-0").is_empty());
}

#[test]
fn batches_that_wait_to_be_retried_count_as_held() {
    let mut harness = harness();
    let body = index(&[id_on(0, 0)]);
    harness.send("/_bulk", &body);
    harness.answer_with("es-0", 429, "{}");
    let held = gauges([("held_requests", 1), ("held_operations", 1), ("held_bytes", body.len() as u64)]);
    assert_eq!(gauges_of(&harness, "es-0"), held);
}

#[test]
fn each_batch_is_measured_once() {
    let mut harness = harness();
    harness.engine.take_events(&mut MetricEvents::default());
    harness.samples.clear();
    let (one, two) = (index(&[id_on(0, 0)]), index(&[id_on(0, 1), id_on(0, 2)]));
    harness.send("/_bulk", &one);
    harness.request("/_bulk", &two);
    harness.now += 3 * MILLISECOND;
    harness.request("/_bulk", &one);
    harness.now += 4 * MILLISECOND;
    harness.answer("es-0");
    harness.now += 5 * MILLISECOND;
    harness.answer_with("es-0", 429, "{}");
    harness.tick_after(INTERVAL);
    harness.settle();
    let values = |histogram| -> Vec<u64> {
        let samples = harness.samples.iter().filter(|(found, _)| *found == histogram);
        samples.map(|(_, value)| *value).collect()
    };
    assert_eq!(values(Histogram::BatchRequests), [1, 2, 2]);
    assert_eq!(values(Histogram::BatchOperations), [1, 3, 3]);
    let bytes = [one.len() as u64, (one.len() + two.len()) as u64];
    assert_eq!(values(Histogram::BatchBytes), [bytes[0], bytes[1], bytes[1]]);
    // The second batch waited for the first. Its retry adds no further hold time.
    assert_eq!(values(Histogram::HoldMicroseconds), [0, 7000]);
    assert_eq!(values(Histogram::UpstreamMicroseconds), [7000, 5000, 0]);
}

#[test]
fn memory_and_the_state_are_reported_after_the_first_request() {
    let harness = Harness::without_state(json!({}));
    assert!(harness.engine.gauges().is_empty());
    let mut harness = Harness::new(json!({"limits": {"memory": "8mb", "max_request": "1mb"}}));
    harness.request("/_bulk", &index(&[id_on(0, 0)]));
    let gauges = harness.engine.gauges();
    assert_eq!(gauges[&Gauge::MemoryLimit], 8 << 20);
    assert_eq!(gauges[&Gauge::Memory], harness.engine.memory());
    assert!(gauges[&Gauge::Memory] > 0 && gauges[&Gauge::MemoryPeak] >= gauges[&Gauge::Memory]);
    assert_eq!((gauges[&Gauge::StateVersion], gauges[&Gauge::StateVerified]), (1, 1_700_000_001));
}
