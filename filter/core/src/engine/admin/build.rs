use serde::Serialize;

use crate::config::Config;
use crate::invariant::found;

/// The build information of the filter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Build {
    /// The version of the filter.
    pub version: &'static str,
    /// The commit, if it is known.
    pub commit: &'static str,
    /// The enabled features.
    pub features: Vec<&'static str>,
}

impl Build {
    /// Returns the filter's first log line.
    pub fn announcement(&self, config: &Config) -> String {
        let Self { version, commit, features } = self;
        let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
        // Every configuration that was read can be serialized.
        let config = found(serde_json::to_string(config).ok(), "a configuration is JSON").unwrap_or_default();
        format!("bulk-reshuffle {version}, commit {commit}, features: {features}, configuration: {config}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_announcement_has_build_and_configuration_without_secrets() {
        let config = Config::read(br#"{"coordinator":"es","credentials":{"authorization":"hush"}}"#).unwrap();
        let build = Build { version: "1.2.3", commit: "abc", features: vec!["a", "b"] };
        let line = build.announcement(&config);
        assert!(
            line.starts_with(r#"bulk-reshuffle 1.2.3, commit abc, features: a, b, configuration: {"coordinator":"es""#)
        );
        assert!(line.contains(r#""credentials":{"authorization":"***"}"#) && !line.contains("hush"), "{line}");
    }
}
