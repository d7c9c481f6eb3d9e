//! The published metrics, and when they are published.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::world::{World, id_on, index};
use crate::engine::command::RequestId;
use crate::engine::input::Input;
use crate::engine::metrics::{Counter, Gauge, Histogram, MetricEvents};
use crate::engine::pass_through::PassThrough;

const MILLISECOND: Duration = Duration::from_millis(1);
const INTERVAL: Duration = Duration::from_millis(100);

/// Creates a world without cluster-state polls for a while, so that time can pass.
fn world() -> World {
    World::new(json!({"cluster_state": {"refresh": "1h"}, "header_pause": "stop"}))
}

/// Returns the gauges of one upstream, without their labels.
fn gauges_of(world: &World, upstream: &str) -> BTreeMap<String, u64> {
    let upstreams = world.engine.upstreams();
    let end = format!(".upstream.{upstream}");
    let gauges = world.engine.gauges().into_iter();
    let of_upstream = gauges.filter_map(|(gauge, value)| {
        let name = gauge.name(upstreams);
        let name = name.strip_prefix("bulk_reshuffle_")?.strip_suffix(&end)?;
        Some((name.to_owned(), value))
    });
    of_upstream.collect()
}

fn gauges<const N: usize>(expected: [(&str, u64); N]) -> BTreeMap<String, u64> {
    expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[test]
fn events_are_published_at_once_when_no_request_is_pending() {
    let mut world = world();
    assert!(!world.engine.is_due());
    let request = RequestId(9);
    world.engine.handle(head(request), world.now);
    assert!(!world.engine.is_due());
    world.engine.handle(Input::RequestEnd { request }, world.now);
    assert!(world.engine.is_due(), "it is empty, and passes through");
    let mut events = MetricEvents::default();
    world.engine.take_events(&mut events);
    assert_eq!(events.counts[&Counter::RequestsPassedThrough(PassThrough::Empty)], 1);
    assert!(!world.engine.is_due());
}

#[test]
fn events_are_published_ten_times_a_second_while_requests_are_pending() {
    let mut world = world();
    world.now += INTERVAL;
    world.root(Input::Tick);
    world.engine.handle(head(RequestId(9)), world.now);
    assert!(!world.engine.is_due());
    world.now += INTERVAL - MILLISECOND;
    world.engine.handle(Input::Tick, world.now);
    assert!(!world.engine.is_due());
    let commands: Vec<_> = std::iter::from_fn(|| world.engine.poll_root()).collect();
    assert!(format!("{commands:?}").contains("SetTimer(1ms)"), "{commands:?}");
    world.now += MILLISECOND;
    world.engine.handle(Input::Tick, world.now);
    assert!(world.engine.is_due());
    world.engine.take_events(&mut MetricEvents::default());
    // Time alone does not make metrics due.
    world.now += INTERVAL;
    world.engine.handle(Input::Tick, world.now);
    assert!(!world.engine.is_due());
}

fn head(request: RequestId) -> Input {
    let headers = [(":method", "POST"), (":path", "/_bulk"), ("content-type", "application/json")];
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    Input::RequestHead { request, headers, route: Some(b"es".to_vec()), end: false }
}

#[test]
fn held_and_in_flight_operations_are_reported_for_each_upstream() {
    let mut world = world();
    let (first, second) = (index(&[id_on(0, 0), id_on(0, 1)]), index(&[id_on(0, 2)]));
    world.request("/_bulk", &first);
    let bytes = first.len() as u64;
    let held = gauges([("held_requests", 1), ("held_operations", 2), ("held_bytes", bytes)]);
    assert_eq!(gauges_of(&world, "es-0"), held);
    world.woken();
    let sent = gauges([("in_flight_batches", 1), ("in_flight_operations", 2), ("in_flight_bytes", bytes)]);
    assert_eq!(gauges_of(&world, "es-0"), sent);
    // Two more requests wait behind it, and one whose client disconnects.
    world.request("/_bulk", &second);
    let leaver = world.request("/_bulk", &second);
    world.gone(leaver);
    let mut both = gauges([("held_requests", 2), ("held_operations", 1), ("held_bytes", second.len() as u64)]);
    both.extend(sent);
    assert_eq!(gauges_of(&world, "es-0"), both);
    assert!(gauges_of(&world, "es-1").is_empty());
    world.answer("es-0");
    world.tick_after(10 * MILLISECOND);
    world.settle();
    assert!(gauges_of(&world, "es-0").is_empty());
}

#[test]
fn batches_that_wait_to_be_retried_count_as_held() {
    let mut world = world();
    let body = index(&[id_on(0, 0)]);
    world.request("/_bulk", &body);
    world.woken();
    world.answer_with("es-0", 429, "{}");
    let held = gauges([("held_requests", 1), ("held_operations", 1), ("held_bytes", body.len() as u64)]);
    assert_eq!(gauges_of(&world, "es-0"), held);
}

#[test]
fn each_batch_is_measured_once() {
    let mut world = world();
    world.engine.take_events(&mut MetricEvents::default());
    world.samples.clear();
    let (one, two) = (index(&[id_on(0, 0)]), index(&[id_on(0, 1), id_on(0, 2)]));
    world.request("/_bulk", &one);
    world.woken();
    world.request("/_bulk", &two);
    world.now += 3 * MILLISECOND;
    world.request("/_bulk", &one);
    world.now += 4 * MILLISECOND;
    world.answer("es-0");
    world.now += 5 * MILLISECOND;
    world.answer_with("es-0", 429, "{}");
    world.tick_after(INTERVAL);
    world.settle();
    let values = |histogram| -> Vec<u64> {
        let samples = world.samples.iter().filter(|(found, _)| *found == histogram);
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
    let world = World::without_state(json!({}));
    assert!(world.engine.gauges().is_empty());
    let mut world = World::new(json!({"limits": {"memory": "8mb", "max_request": "1mb"}}));
    world.request("/_bulk", &index(&[id_on(0, 0)]));
    let gauges = world.engine.gauges();
    assert_eq!(gauges[&Gauge::MemoryLimit], 8 << 20);
    assert_eq!(gauges[&Gauge::Memory], world.engine.memory());
    assert!(gauges[&Gauge::Memory] > 0 && gauges[&Gauge::MemoryPeak] >= gauges[&Gauge::Memory]);
    assert_eq!((gauges[&Gauge::StateVersion], gauges[&Gauge::StateVerified]), (1, 1_700_000_001));
}
