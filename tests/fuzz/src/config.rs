use std::time::Duration;

use bulk_reshuffle::config::{Config, Switches};
use serde_json::Value;

use crate::day::Day;

/// The plug-in's configuration, and what is switched in the cluster's settings.
///
/// What is refused is refused by the path of a field that is there or could be. What is accepted keeps the bounds
/// that are told of it, whatever is switched, and an engine runs with it: a request is answered or passes through, and
/// nothing is left.
pub fn config(input: &[u8]) {
    if let (Ok((switches, _)), Ok(config)) = (Switches::read(input), Config::read(br#"{"coordinator":"es"}"#)) {
        check_bounds(&config.with(&switches));
    }
    match Config::read(input) {
        Ok(config) => {
            check_bounds(&config);
            check_run(config);
        }
        Err(error) => {
            assert!(!error.problem.is_empty(), "{error:?}");
            if let Ok(value) = serde_json::from_slice(input) {
                check_field(&value);
            }
        }
    }
}

fn check_bounds(config: &Config) {
    let sensible = Duration::from_millis(1)..=Duration::from_secs(3600);
    let Config { cluster_state, hold, dispatch, retry, limits, .. } = config;
    let durations = [
        cluster_state.refresh,
        cluster_state.timeout,
        hold.interval,
        dispatch.timeout,
        retry.backoff,
        retry.max_backoff,
    ];
    assert!(durations.iter().all(|duration| sensible.contains(&Duration::from_millis(duration.as_millis() as u64))));
    assert!((1..=dispatch.max_in_flight_per_node).contains(&dispatch.max_in_flight));
    assert!(limits.max_request > 0 && limits.max_request <= limits.memory && limits.memory <= 768 << 20);
    assert!(!config.coordinator.is_empty() && hold.flush_threshold_size > 0);
    for retries in [0, 1, 7, 31, 32, u32::MAX] {
        for spread in [0, 1, u32::MAX] {
            assert!(retry.backoff(retries, spread) <= retry.max_backoff);
        }
    }
}

fn check_field(value: &Value) {
    // Without keys that stand there twice.
    let Err(error) = Config::read(value.to_string().as_bytes()) else { return };
    // A name that has a dot cannot be told from two.
    let mut at = Some(value);
    // Nor is an element of a list a field.
    for name in error.field.split('.').map(|name| name.split('[').next().unwrap_or_default()) {
        if name.is_empty() {
            continue;
        }
        let Some(fields) = at.and_then(Value::as_object) else { return };
        if fields.keys().any(|key| key.contains(['.', '[', '\\']) || key.is_empty()) {
            return;
        }
        at = fields.get(name);
        assert!(at.is_some() || FIELDS.contains(&name), "{name} is no field, in {error:?}");
    }
}

/// Those that may be named although they are not there.
const FIELDS: &[&str] = &["limits", "max_request", "memory", "dispatch", "max_in_flight"];

fn check_run(config: Config) {
    let mut day = Day::new(config);
    for body in
        [&b""[..], b"{\"index\":{\"_index\":\"a\",\"_id\":\"1\"}}\n{}\n{\"delete\":{\"_index\":\"i\",\"_id\":\"2\"}}\n"]
    {
        day.head(&[(":method", b"POST"), (":path", b"/_bulk"), ("content-type", b"application/json")], false);
        day.data(usize::from(!body.is_empty()), body.to_vec(), true);
        for _ in 0..4 {
            day.tick(Duration::from_secs(3600));
            for _ in 0..day.calls() {
                day.answer_well(0);
            }
        }
        day.wake();
    }
    day.end();
}
