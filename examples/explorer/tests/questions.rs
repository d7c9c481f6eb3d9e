//! Native tests of the functions behind the page and the package.

use std::io::Write;

use bulk_reshuffle::engine::Way;
use bulk_reshuffle_explorer::cluster::{Cluster, headers, lines};
use bulk_reshuffle_explorer::sample;
use bulk_reshuffle_explorer::simulation::{Report, Run, Settings, simulate};

fn sample() -> (Cluster, Vec<u8>) {
    (Cluster::new(&sample::state(), "").unwrap(), sample::body().into_bytes())
}

fn run(settings: Settings) -> Report {
    let (cluster, body) = sample();
    simulate(&cluster, "/_bulk", &body, &settings).unwrap()
}

fn executed(run: &Run) -> u64 {
    run.nodes.iter().map(|node| node.operations).sum()
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn the_location_of_a_document_matches_the_explanation_of_its_request() {
    let (cluster, body) = sample();
    let explanation = cluster.explain("/_bulk", &body, usize::MAX).unwrap();
    assert_eq!((explanation.way, explanation.operations), (Way::Split, 600));
    for operation in &explanation.listed {
        let name = operation.name.as_deref().unwrap();
        let place = cluster.place(name, operation.id.as_deref(), operation.routing.as_deref()).unwrap();
        assert_eq!((Some(place.choice), place.node), (operation.choice, operation.node.clone()));
        assert_eq!(Some(place.index), operation.index);
    }
    assert!(cluster.place("nope", Some("1"), None).unwrap_err().to_string().contains("unknown_index"));
    assert!(cluster.place("logs", None, None).is_err());
}

#[test]
fn invalid_input_is_rejected_with_a_reason() {
    for (state, config, part) in [
        ("{}", "", "GET _cluster/state"),
        (sample::state().as_str(), "[]", "not a JSON object"),
        (sample::state().as_str(), r#"{"hold":{"interval":5}}"#, "hold.interval"),
    ] {
        let error = Cluster::new(state, config).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let (cluster, body) = sample();
    assert!(cluster.explain("/_search", &body, 1).unwrap_err().to_string().contains("/_search"));
    assert!(simulate(&cluster, "/_bulk", b"nothing", &Settings::default()).is_err());
}

#[test]
fn a_compressed_body_gives_the_same_result() {
    let (cluster, body) = sample();
    let zipped = gzip(&body);
    let explanation = cluster.explain("/_bulk", &zipped, usize::MAX).unwrap();
    assert_eq!(explanation, cluster.explain("/_bulk", &body, usize::MAX).unwrap());
    assert_eq!(lines(&zipped, &explanation.listed).concat(), body);
    assert!(headers("/_bulk", &zipped).len() > headers("/_bulk", &body).len());
}

#[test]
fn without_the_filter_the_operations_of_other_nodes_are_forwarded() {
    let (cluster, body) = sample();
    let explanation = cluster.explain("/_bulk", &body, 0).unwrap();
    let forwarding = cluster.forwarding(&explanation);
    assert_eq!((forwarding.nodes, forwarding.with.share), (3, 0.0));
    assert!((forwarding.without.operations - 400.0).abs() < 1e-6);
    let shares = explanation.nodes.iter().map(|node| 1.0 - node.operations as f64 / 600.0);
    let expected = shares.fold((1.0, 0.0), |(least, most), share| (f64::min(least, share), f64::max(most, share)));
    assert_eq!((forwarding.range[0], forwarding.range[1]), expected);
    // Operations without a shard, and requests that pass through, are forwarded as without the filter.
    let passed = cluster.explain("/_bulk", b"{\"index\":{\"_index\":\"logs\"}}\n{}\n{}\n{}\n", 0).unwrap();
    assert_eq!(cluster.forwarding(&passed).with, cluster.forwarding(&passed).without);
    let config = Cluster::new(&sample::state(), r#"{"missing_id":"pass"}"#).unwrap();
    let any = config.explain("/_bulk", b"{\"index\":{\"_index\":\"logs\"}}\n{}\n", 0).unwrap();
    assert!((config.forwarding(&any).with.share - 2.0 / 3.0).abs() < 1e-9);
}

#[test]
fn every_operation_is_executed_once_with_any_settings() {
    for settings in [
        Settings::default(),
        Settings { workers: 5, nodes: 7, clients: 3, operations: 40, requests: 300, ..Settings::default() },
        Settings { early_release: false, interval: 20.0, requests: 500, ..Settings::default() },
        Settings { rate: 100_000.0, clients: 10_000, operations: 1, batch_time: 0.0, ..Settings::default() },
        Settings { rate: f64::NAN, requests: 0, clients: 0, operations: 0, workers: 0, ..Settings::default() },
    ] {
        let report = run(settings);
        let Settings { requests, operations, nodes, .. } = report.settings;
        for run in [&report.with, &report.without] {
            assert_eq!((run.requests, run.passed_whole), (u64::from(requests), 0));
            assert_eq!(executed(run), u64::from(requests) * u64::from(operations));
            assert_eq!(run.batches.sizes.iter().map(|(_, count)| count).sum::<u64>(), run.batches.count);
            assert_eq!(run.nodes.len(), if nodes > 0 { usize::from(nodes) } else { 3 });
        }
        assert_eq!(report.with.forwarded, 0);
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another_run() {
    let [first, again, other] = [1, 1, 2].map(|seed| run(Settings { seed, ..Settings::default() }));
    assert_eq!(first, again);
    assert_ne!(first.with.latency, other.with.latency);
}

#[test]
fn longer_holding_makes_larger_batches() {
    let held = |interval| {
        let settings = Settings { early_release: false, interval, rate: 1000.0, ..Settings::default() };
        run(settings).with.batches.operations
    };
    assert!(held(10.0) * 2.0 < held(50.0), "{} {}", held(10.0), held(50.0));
}

#[test]
fn a_simulation_of_requests_that_pass_through_is_rejected() {
    let (cluster, _) = sample();
    let body = "{\"index\":{\"_index\":\"logs\",\"_id\":\"1\"}}\n{}\n";
    let settings = Settings { operations: 1, requests: 100, ..Settings::default() };
    let report = simulate(&cluster, "/_bulk?pipeline=p", body.as_bytes(), &settings);
    assert!(report.is_err(), "the filter parses none of its operations");
    let off = Cluster::new(&sample::state(), r#"{"limits":{"max_request":"10b"}}"#).unwrap();
    assert!(simulate(&off, "/_bulk", body.as_bytes(), &settings).is_err());
}
