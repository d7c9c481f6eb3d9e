use std::time::Duration;

use bulk_reshuffle::config::{Config, RuntimeSettings};
use serde_json::Value;

use crate::run::Run;

/// Checks the plug-in's configuration, and the run-time settings of the cluster.
///
/// A refusal must name the path of a field that exists or could exist. An accepted configuration must keep its
/// documented limits with any run-time settings. An engine must run with it: a request is answered or passes through,
/// and nothing is left over.
pub fn config(input: &[u8]) {
    if let (Ok((settings, _)), Ok(config)) = (RuntimeSettings::read(input), Config::read(br#"{"coordinator":"es"}"#)) {
        check_bounds(&config.with(&settings));
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
    // This text has no duplicate keys.
    let Err(error) = Config::read(value.to_string().as_bytes()) else { return };
    // A name with a dot cannot be told from two names.
    let mut at = Some(value);
    // An element of a list is not a field either.
    for name in error.field.split('.').map(|name| name.split('[').next().unwrap_or_default()) {
        if name.is_empty() {
            continue;
        }
        let Some(fields) = at.and_then(Value::as_object) else { return };
        if fields.keys().any(|key| key.contains(['.', '[', '\\']) || key.is_empty()) {
            return;
        }
        at = fields.get(name);
        assert!(at.is_some() || FIELDS.contains(&name), "{name} is not a field, in {error:?}");
    }
}

/// The fields that an error may name although they are absent.
const FIELDS: &[&str] = &["limits", "max_request", "memory", "dispatch", "max_in_flight"];

fn check_run(config: Config) {
    let mut run = Run::new(config);
    for body in
        [&b""[..], b"{\"index\":{\"_index\":\"a\",\"_id\":\"1\"}}\n{}\n{\"delete\":{\"_index\":\"i\",\"_id\":\"2\"}}\n"]
    {
        run.head(&[(":method", b"POST"), (":path", b"/_bulk"), ("content-type", b"application/json")], false);
        run.data(usize::from(!body.is_empty()), body.to_vec(), true);
        for _ in 0..4 {
            run.tick(Duration::from_secs(3600));
            for _ in 0..run.calls() {
                run.answer_well(0);
            }
        }
        run.wake();
    }
    run.end();
}
