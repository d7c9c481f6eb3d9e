use serde_json::json;

use super::harness::{Harness, id_on, index};
use crate::engine::metrics::Counter;
use crate::engine::pass_through::PassThrough;

fn body() -> String {
    index(&[id_on(0, 0), id_on(1, 0)])
}

/// Sends a request with this route, and returns whether it was split.
fn is_split(harness: &mut Harness, route: Option<&str>) -> bool {
    let body = body();
    let id = harness.head_to(route, "/_bulk", &[]);
    harness.data(id, &body, true);
    harness.woken();
    let is_split = !harness.calls.is_empty();
    assert_ne!(is_split, harness.passed.contains_key(&id));
    harness.settle();
    is_split
}

#[test]
fn only_requests_routed_to_the_coordinator_are_split() {
    let mut harness = Harness::new(json!({"route_clusters": ["es-http"]}));
    for route in ["es", "es-http"] {
        assert!(is_split(&mut harness, Some(route)), "{route}");
    }
    // A node's own cluster may have another policy than the coordinator.
    for route in ["other", "es-0", "es2", "e", ""] {
        assert!(!is_split(&mut harness, Some(route)), "{route}");
    }
    assert!(!is_split(&mut harness, None));
    assert_eq!(harness.passed_because(PassThrough::Route), 6);
    assert_eq!(PassThrough::Route.name(), "route");
}

#[test]
fn each_requests_own_route_counts_even_if_its_headers_are_cached() {
    let mut harness = Harness::new(json!({}));
    // With weighted clusters, some of several requests with equal headers go elsewhere.
    for _ in 0..20 {
        assert!(is_split(&mut harness, Some("es")));
        assert!(!is_split(&mut harness, Some("canary")));
        assert!(!is_split(&mut harness, None));
    }
}

#[test]
fn requests_routed_elsewhere_are_not_read_and_cause_no_polls() {
    let mut harness = Harness::without_state(json!({}));
    let id = harness.head_to(Some("other"), "/_bulk?routing=%", &[("content-encoding", "br")]);
    assert!(harness.passed.contains_key(&id));
    harness.woken();
    assert!(harness.state_queries.is_empty());
    assert_eq!(harness.passed_because(PassThrough::Route), 1);
    // Requests other than bulk requests are not counted.
    harness.send_bodiless(77, "GET", "/_bulk");
    assert!(harness.passed.contains_key(&77));
    assert_eq!(harness.passed_because(PassThrough::Route), 1);
}

#[test]
fn disabled_takes_precedence_over_the_route() {
    let mut harness = Harness::new(json!({"enabled": false}));
    assert!(!is_split(&mut harness, Some("other")));
    assert_eq!(harness.counts[&Counter::RequestsPassedThrough(PassThrough::Disabled)], 1);
    assert_eq!(harness.passed_because(PassThrough::Route), 0);
}

#[test]
fn a_warning_is_logged_once_if_no_route_leads_here() {
    let mut harness = Harness::without_state(json!({}));
    harness.head_to(Some("es-http"), "/_bulk", &[]);
    // Nothing else requests the callback in which warnings are logged.
    assert_eq!(harness.wake_ups, 1);
    harness.head_to(None, "/_bulk", &[]);
    harness.woken();
    assert_eq!(harness.warnings.len(), 1);
    let advice =
        ["If Envoy has no cluster \"es\", correct `coordinator`.", "If \"es-http\" has the same nodes, add it"];
    for part in ["leads to the Envoy cluster \"es-http\"", "the coordinator \"es\" so far"].into_iter().chain(advice) {
        assert!(harness.warnings[0].contains(part), "{:?}", harness.warnings);
    }

    let mut harness = Harness::without_state(json!({}));
    harness.head_to(None, "/_bulk", &[]);
    harness.woken();
    assert!(harness.warnings[0].contains("`xds.cluster_name`"), "{:?}", harness.warnings);
}

#[test]
fn routes_elsewhere_cause_no_warning_if_others_lead_here() {
    let mut harness = Harness::new(json!({}));
    assert!(is_split(&mut harness, Some("es")));
    assert!(!is_split(&mut harness, Some("other")));
    assert!(harness.warnings.is_empty(), "{:?}", harness.warnings);
}
