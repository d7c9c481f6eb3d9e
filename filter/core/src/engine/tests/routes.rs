use serde_json::json;

use super::world::{World, id_on, index};
use crate::engine::command::RequestId;
use crate::engine::input::Input;
use crate::engine::metrics::Counter;
use crate::engine::pass_through::PassThrough;

fn body() -> String {
    index(&[id_on(0, 0), id_on(1, 0)])
}

/// Sends a request with this route, and returns whether it was split.
fn is_split(world: &mut World, route: Option<&str>) -> bool {
    let body = body();
    let id = world.head_to(route, "/_bulk", &[]);
    world.data(id, &body, true);
    world.woken();
    let is_split = !world.calls.is_empty();
    assert_ne!(is_split, world.passed.contains_key(&id));
    world.settle();
    is_split
}

#[test]
fn only_requests_routed_to_the_coordinating_upstream_are_split() {
    let mut world = World::new(json!({"route_clusters": ["es-http"]}));
    for route in ["es", "es-http"] {
        assert!(is_split(&mut world, Some(route)), "{route}");
    }
    // A node's own cluster may have another policy than the coordinating upstream.
    for route in ["other", "es-0", "es2", "e", ""] {
        assert!(!is_split(&mut world, Some(route)), "{route}");
    }
    assert!(!is_split(&mut world, None));
    assert_eq!(world.passed_because(PassThrough::Route), 6);
    assert_eq!(PassThrough::Route.name(), "route");
}

#[test]
fn each_requests_own_route_counts_even_if_its_headers_are_cached() {
    let mut world = World::new(json!({}));
    // With weighted clusters, some of several requests with equal headers go elsewhere.
    for _ in 0..20 {
        assert!(is_split(&mut world, Some("es")));
        assert!(!is_split(&mut world, Some("canary")));
        assert!(!is_split(&mut world, None));
    }
}

#[test]
fn requests_routed_elsewhere_are_not_read_and_cause_no_polls() {
    let mut world = World::without_state(json!({}));
    let id = world.head_to(Some("other"), "/_bulk?routing=%", &[("content-encoding", "br")]);
    assert!(world.passed.contains_key(&id));
    world.woken();
    assert!(world.state_queries.is_empty());
    assert_eq!(world.passed_because(PassThrough::Route), 1);
    // Requests other than bulk requests are not counted.
    let headers = [(":method", "GET"), (":path", "/_bulk")];
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    world.stream(Input::RequestHead { request: RequestId(77), headers, route: None, end: true });
    assert!(world.passed.contains_key(&77));
    assert_eq!(world.passed_because(PassThrough::Route), 1);
}

#[test]
fn disabled_takes_precedence_over_the_route() {
    let mut world = World::new(json!({"enabled": false}));
    assert!(!is_split(&mut world, Some("other")));
    assert_eq!(world.counts[&Counter::RequestsPassedThrough(PassThrough::Disabled)], 1);
    assert_eq!(world.passed_because(PassThrough::Route), 0);
}

#[test]
fn a_warning_is_logged_once_if_no_route_leads_here() {
    let mut world = World::without_state(json!({}));
    world.head_to(Some("es-http"), "/_bulk", &[]);
    // Nothing else requests the callback in which warnings are logged.
    assert_eq!(world.wake_ups, 1);
    world.head_to(None, "/_bulk", &[]);
    world.woken();
    assert_eq!(world.warnings.len(), 1);
    let [cluster, coordinator, field] = ["\"es-http\"", "upstream \"es\"", "`route_clusters`"];
    for part in [cluster, coordinator, field] {
        assert!(world.warnings[0].contains(part), "{:?}", world.warnings);
    }

    let mut world = World::without_state(json!({}));
    world.head_to(None, "/_bulk", &[]);
    world.woken();
    assert!(world.warnings[0].contains("`xds.cluster_name`"), "{:?}", world.warnings);
}

#[test]
fn routes_elsewhere_cause_no_warning_if_others_lead_here() {
    let mut world = World::new(json!({}));
    assert!(is_split(&mut world, Some("es")));
    assert!(!is_split(&mut world, Some("other")));
    assert!(world.warnings.is_empty(), "{:?}", world.warnings);
}
