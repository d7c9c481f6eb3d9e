use serde::{Deserialize, Serialize};

use super::index_metadata::IndexMetadata;
use crate::config::MissingId;

/// The settings that an index itself makes for its operations: `_meta.bulk_reshuffle` in its mapping, and index
/// settings that allow only one choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Overrides {
    /// Whether requests with operations for it are split at all.
    pub enabled: Option<bool>,
    /// How its operations without a document id are routed.
    pub missing_id: Option<MissingId>,
}

impl Overrides {
    /// Reads the settings of an index. Anything unknown or malformed is ignored.
    pub(crate) fn of_index(metadata: &IndexMetadata) -> Self {
        let mut overrides = Self::default();
        for meta in metadata.mappings.values().filter_map(|mapping| mapping.meta.bulk_reshuffle.as_ref()) {
            let enabled =
                meta.get("enabled").and_then(|value| value.as_bool().or_else(|| value.as_str()?.parse().ok()));
            let missing_id = meta.get("missing_id").cloned();
            overrides.enabled = enabled.or(overrides.enabled);
            overrides.missing_id =
                missing_id.and_then(|value| serde_json::from_value(value).ok()).or(overrides.missing_id);
        }
        // An append-only index refuses documents whose id the cluster has not generated.
        if metadata.settings.index.append_only.enabled.as_deref().is_some_and(|enabled| enabled != "false") {
            overrides.missing_id = Some(MissingId::Pass);
        }
        overrides
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn overrides(metadata: Value) -> Overrides {
        Overrides::of_index(&serde_json::from_value(metadata).unwrap())
    }

    fn meta(text: Value) -> Overrides {
        overrides(json!({"mappings": {"_doc": {"_meta": {"bulk_reshuffle": text}}}}))
    }

    #[test]
    fn a_mapping_may_hold_settings_of_the_filter() {
        let expected = Overrides { enabled: Some(false), missing_id: Some(MissingId::Direct) };
        assert_eq!(meta(json!({"enabled": false, "missing_id": "direct"})), expected);
        assert_eq!(meta(json!({"enabled": "false", "missing_id": "direct", "more": 1})), expected);
        for nonsense in [json!({}), json!("off"), json!(null), json!({"enabled": "no", "missing_id": 7})] {
            assert_eq!(meta(nonsense), Overrides::default());
        }
    }

    #[test]
    fn an_append_only_index_gets_no_generated_ids() {
        let append_only = |enabled: &str| {
            overrides(json!({
                "settings": {"index": {"append_only": {"enabled": enabled}}},
                "mappings": {"_doc": {"_meta": {"bulk_reshuffle": {"missing_id": "generate"}}}},
            }))
        };
        assert_eq!(append_only("true").missing_id, Some(MissingId::Pass));
        assert_eq!(append_only("false").missing_id, Some(MissingId::Generate));
    }
}
