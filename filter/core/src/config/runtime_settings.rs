use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::field::{DurationText, SizeText, count};
use super::{Config, Enabled, MissingId};
use crate::json::Object;

/// The path of the run-time settings among the settings of a cluster.
const PLACE: &str = "cluster.metadata.bulk_reshuffle";
const NAME: &str = "bulk_reshuffle";

/// Parts of names that are misspellings of [`NAME`] if they begin with `bulk`.
const LIKE_NAME: [&str; 2] = ["resh", "shuf"];

/// The run-time settings that operators set in the cluster, under `cluster.metadata.bulk_reshuffle`. They override the
/// fields of the configuration, with the same units and limits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RuntimeSettings {
    /// The field `enabled`.
    pub enabled: Option<Enabled>,
    /// The field `hold.interval`.
    pub interval: Option<Duration>,
    /// The field `hold.flush_threshold_size`, in bytes.
    pub flush_threshold_size: Option<u64>,
    /// The field `hold.flush_threshold_docs`.
    pub flush_threshold_docs: Option<u64>,
    /// The field `hold.early_release`.
    pub early_release: Option<bool>,
    /// The field `missing_id`.
    pub missing_id: Option<MissingId>,
    /// The field `single_documents`.
    pub single_documents: Option<bool>,
    /// The field `dispatch.max_in_flight`.
    pub max_in_flight: Option<usize>,
}

impl RuntimeSettings {
    /// Parses the answer to
    /// `GET /_cluster/settings?filter_path=persistent.cluster.metadata.bulk*,transient.cluster.metadata.bulk*`. A transient setting overrides a persistent one, as in the cluster. Also returns a message for each setting that
    /// it ignores. Fails if the answer is not an object.
    pub fn read(body: &[u8]) -> Result<(Self, Vec<String>), serde_json::Error> {
        let Object(answer) = serde_json::from_slice::<Object<Map<String, Value>>>(body)?;
        let (mut set, mut invalid) = (Map::new(), Vec::new());
        for scope in ["persistent", "transient"] {
            let metadata = answer.get(scope).and_then(|scope| scope.get("cluster")?.get("metadata")?.as_object());
            for (name, value) in metadata.into_iter().flatten() {
                match value {
                    Value::Object(more) if name == NAME => set.extend(more.clone()),
                    other if name == NAME => {
                        invalid.push(ignored(PLACE, &format!("expected settings below it, found {other}")));
                    }
                    _ if LIKE_NAME.iter().any(|part| name.contains(part)) => {
                        let name = format!("cluster.metadata.{name}");
                        invalid.push(ignored(&name, &format!("unknown, expected `{PLACE}`")));
                    }
                    _ => {}
                }
            }
        }
        let mut settings = Self::default();
        for (name, value) in set {
            if let Err(error) = settings.set(&name, value) {
                invalid.push(ignored(&format!("{PLACE}.{name}"), &error.to_string()));
            }
        }
        Ok((settings, invalid))
    }

    /// Returns the problems of the settings that contradict this configuration. [`Config::with`] ignores these
    /// settings.
    pub fn contradictions(&self, config: &Config) -> Vec<String> {
        let most = config.dispatch.max_in_flight_per_node;
        let too_many = self.max_in_flight.filter(|max_in_flight| *max_in_flight > most);
        let problem = |found| format!("expected at most `dispatch.max_in_flight_per_node`, {most}, found {found}");
        let name = format!("{PLACE}.max_in_flight");
        too_many.map(|found| ignored(&name, &problem(found))).into_iter().collect()
    }

    fn set(&mut self, name: &str, value: Value) -> Result<(), serde_json::Error> {
        match name {
            "enabled" => self.enabled = Some(Enabled::deserialize(literal(value))?),
            "interval" => self.interval = Some(DurationText::deserialize(value)?),
            "flush_threshold_size" => self.flush_threshold_size = Some(SizeText::deserialize(value)?),
            "flush_threshold_docs" => self.flush_threshold_docs = Some(u64::deserialize(literal(value))?),
            "early_release" => self.early_release = Some(bool::deserialize(literal(value))?),
            "missing_id" => self.missing_id = Some(MissingId::deserialize(value)?),
            "single_documents" => self.single_documents = Some(bool::deserialize(literal(value))?),
            "max_in_flight" => self.max_in_flight = Some(count(literal(value))?),
            _ => {
                return Err(Error::custom(
                    "unknown, expected one of `enabled`, `interval`, `flush_threshold_size`, `flush_threshold_docs`, \
                     `early_release`, `missing_id`, `single_documents`, `max_in_flight`",
                ));
            }
        }
        Ok(())
    }
}

fn ignored(setting: &str, problem: &str) -> String {
    format!("the cluster's setting `{setting}` is ignored: {problem}")
}

/// Returns the number or boolean that a text contains, or else the value itself. The cluster reports all values as
/// text.
fn literal(value: Value) -> Value {
    let parsed = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    parsed.filter(|parsed| parsed.is_number() || parsed.is_boolean()).unwrap_or(value)
}

impl Config {
    /// Returns the configuration with these settings applied, except those that [contradict](RuntimeSettings::contradictions)
    /// it.
    #[must_use]
    pub fn with(&self, settings: &RuntimeSettings) -> Self {
        let mut config = self.clone();
        let Self { enabled, hold, dispatch, missing_id, single_documents, .. } = &mut config;
        let max_in_flight = settings.max_in_flight.filter(|_| settings.contradictions(self).is_empty());
        replace(enabled, settings.enabled);
        replace(&mut hold.interval, settings.interval);
        replace(&mut hold.flush_threshold_size, settings.flush_threshold_size);
        replace(&mut hold.flush_threshold_docs, settings.flush_threshold_docs);
        replace(&mut hold.early_release, settings.early_release);
        replace(missing_id, settings.missing_id);
        replace(single_documents, settings.single_documents);
        replace(&mut dispatch.max_in_flight, max_in_flight);
        config
    }
}

fn replace<T>(old: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *old = new;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(json: &Value) -> Config {
        Config::read(json.to_string().as_bytes()).unwrap()
    }

    fn below(scope: &str, settings: Value) -> Value {
        json!({scope: {"cluster": {"metadata": {"bulk_reshuffle": settings}}}})
    }

    fn read(answer: &Value) -> (RuntimeSettings, Vec<String>) {
        RuntimeSettings::read(answer.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn each_setting_overrides_its_field() {
        let every: Value = serde_json::from_str(include_str!("every_setting.json")).unwrap();
        let (settings, invalid) = read(&below("persistent", every["cluster"].clone()));
        assert_eq!(invalid, [""; 0]);
        let before = config(&json!({"coordinator": "es", "retry": {"attempts": 2}}));
        let same = config(
            &json!({"coordinator": "es", "retry": {"attempts": 2}, "enabled": false, "missing_id": "direct", "single_documents": true,
            "hold": {"interval": "20ms", "flush_threshold_size": "2kb", "flush_threshold_docs": 7, "early_release": false},
            "dispatch": {"max_in_flight": 3}}),
        );
        assert_eq!(format!("{:?}", before.with(&settings)), format!("{same:?}"));
        // Workers exchange the settings as text.
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<RuntimeSettings>(&text).unwrap(), settings);
    }

    #[test]
    fn without_settings_the_configuration_stays_unchanged() {
        let before = config(&json!({"coordinator": "es", "enabled": false, "hold": {"early_release": false}}));
        for answer in [json!({}), json!({"persistent": {}}), below("transient", json!({}))] {
            let (settings, invalid) = read(&answer);
            assert_eq!((&settings, invalid.len()), (&RuntimeSettings::default(), 0));
            assert_eq!(format!("{:?}", before.with(&settings)), format!("{before:?}"));
        }
        assert!(RuntimeSettings::read(b"[]").is_err() && RuntimeSettings::read(b"<html>").is_err());
    }

    #[test]
    fn a_transient_setting_overrides_a_persistent_one() {
        let mut answer = below("persistent", json!({"interval": "1s", "enabled": "true", "max_in_flight": "2"}));
        answer
            .as_object_mut()
            .unwrap()
            .extend(below("transient", json!({"interval": "2s", "enabled": "false"})).as_object().unwrap().clone());
        let (settings, invalid) = read(&answer);
        let expected = RuntimeSettings {
            enabled: Some(Enabled::No),
            interval: Some(Duration::from_secs(2)),
            max_in_flight: Some(2),
            ..RuntimeSettings::default()
        };
        assert_eq!((settings, invalid.len()), (expected, 0));
    }

    #[test]
    fn reads_bare_numbers_and_booleans() {
        let set = json!({"enabled": false, "early_release": true, "flush_threshold_docs": 5, "max_in_flight": 4});
        let (settings, invalid) = read(&below("transient", set));
        let expected = RuntimeSettings {
            enabled: Some(Enabled::No),
            early_release: Some(true),
            flush_threshold_docs: Some(5),
            max_in_flight: Some(4),
            ..RuntimeSettings::default()
        };
        assert_eq!((settings, invalid.len()), (expected, 0));
    }

    #[test]
    fn an_invalid_setting_is_ignored_and_reported_once() {
        for (name, value, problem) in [
            ("enabled", json!("yes"), "expected a boolean or \"observe\""),
            ("enabled", json!("1"), "expected a boolean"),
            ("enabled", json!(null), "expected a boolean"),
            ("interval", json!("fast"), "expected a duration of 1ms to 1h"),
            ("interval", json!("2h"), "found \"2h\""),
            ("interval", json!(20), "expected a duration of 1ms to 1h"),
            ("flush_threshold_size", json!("0"), "expected a size of at least 1b"),
            ("flush_threshold_docs", json!("-1"), "expected u64"),
            ("flush_threshold_docs", json!("many"), "expected u64"),
            ("early_release", json!({"x": "true"}), "expected a boolean"),
            ("missing_id", json!("make"), "expected one of `pass`, `generate`, `direct`"),
            ("max_in_flight", json!("0"), "expected a number from 1 to 65535"),
            ("max_in_flight", json!("65536"), "expected u16"),
            ("intervall", json!("1s"), "expected one of `enabled`, `interval`"),
        ] {
            let mut answer = below("persistent", json!({name: value, "flush_threshold_docs": "9"}));
            if name == "flush_threshold_docs" {
                answer = below("persistent", json!({name: value, "interval": "1s"}));
            }
            let (settings, invalid) = read(&answer);
            assert_eq!(invalid.len(), 1, "{name} {value}: {invalid:?}");
            let named = format!("`cluster.metadata.bulk_reshuffle.{name}`");
            assert!(invalid[0].contains(&named) && invalid[0].contains(problem), "{}", invalid[0]);
            // The other settings still apply.
            assert_ne!(settings, RuntimeSettings::default(), "{name} {value}");
        }
        let (settings, invalid) = read(&json!({"persistent": {"cluster": {"metadata": {"bulk_reshuffle": "off"}}}}));
        assert_eq!((settings, invalid.len()), (RuntimeSettings::default(), 1));
        assert!(invalid[0].contains("`cluster.metadata.bulk_reshuffle`"), "{}", invalid[0]);
    }

    #[test]
    fn settings_below_a_misspelled_name_are_reported() {
        for name in ["bulk_reshufle", "bulk-reshuffle", "bulk_shuffle", "bulkreshuffel"] {
            let (settings, invalid) =
                read(&json!({"transient": {"cluster": {"metadata": {name: {"enabled": "false"}, "bulk_size": "1"}}}}));
            assert_eq!(settings, RuntimeSettings::default());
            let expected = format!(
                "the cluster's setting `cluster.metadata.{name}` is ignored: unknown, expected \
                 `cluster.metadata.bulk_reshuffle`"
            );
            assert_eq!(invalid, [expected]);
        }
    }

    #[test]
    fn a_batch_limit_above_the_nodes_is_ignored() {
        let config =
            config(&json!({"coordinator": "es", "dispatch": {"max_in_flight": 2, "max_in_flight_per_node": 4}}));
        let settings = |max_in_flight| RuntimeSettings {
            max_in_flight: Some(max_in_flight),
            enabled: Some(Enabled::No),
            ..RuntimeSettings::default()
        };
        let with = config.with(&settings(4));
        assert_eq!((with.dispatch.max_in_flight, settings(4).contradictions(&config).len()), (4, 0));
        let with = config.with(&settings(5));
        assert_eq!((with.dispatch.max_in_flight, with.enabled), (2, Enabled::No));
        let invalid = settings(5).contradictions(&config);
        assert_eq!(invalid.len(), 1);
        assert!(
            invalid[0].contains("`cluster.metadata.bulk_reshuffle.max_in_flight`") && invalid[0].contains("found 5")
        );
    }
}
