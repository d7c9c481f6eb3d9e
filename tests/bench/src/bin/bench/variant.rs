//! The configurations that a sweep compares with the shipped one.

use anyhow::Result;
use serde::Serialize;

use crate::documents::Ids;
use crate::options::Options;
use crate::target::Target;

/// Another configuration of the filter.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Variant {
    /// The JSON that is merged into the shipped configuration.
    pub settings: &'static str,
    /// Whether the documents' ids are given or missing, in both.
    pub ids: Ids,
    /// The worker threads of the variant's Envoy. The shipped one has one.
    pub workers: u32,
}

impl Variant {
    /// All variants. The shipped configuration itself comes first: it shows how far two identical runs differ.
    pub const ALL: &[Self] = &[
        Self::with("{}"),
        Self::with(r#"{"hold": {"gather": "0ms"}}"#),
        Self::with(r#"{"hold": {"gather": "1ms"}}"#),
        Self::with(r#"{"hold": {"gather": "5ms"}}"#),
        Self::with(r#"{"hold": {"early_release": false, "interval": "5ms"}}"#),
        Self::with(r#"{"hold": {"early_release": false, "interval": "20ms"}}"#),
        Self::with(r#"{"hold": {"early_release": false}}"#),
        Self::with(r#"{"hold": {"interval": "5ms"}, "dispatch": {"max_in_flight": 2}}"#),
        Self::with(r#"{"dispatch": {"max_in_flight": 2}}"#),
        Self::with(r#"{"dispatch": {"max_in_flight": 4}}"#),
        Self::with(r#"{"hold": {"flush_threshold_size": "128kb"}}"#),
        Self::with(r#"{"hold": {"flush_threshold_size": "8mb"}}"#),
        Self::with(r#"{"dispatch": {"level": "shard"}}"#),
        Self::with(r#"{"dispatch": {"compress": true}}"#),
        Self { workers: 2, ..Self::with("{}") },
        Self { ids: Ids::Missing, ..Self::with(r#"{"missing_id": "pass"}"#) },
        Self { ids: Ids::Missing, ..Self::with(r#"{"missing_id": "direct"}"#) },
    ];

    const fn with(settings: &'static str) -> Self {
        Self { settings, ids: Ids::Given, workers: 1 }
    }

    /// Returns the options that compare the shipped configuration with this variant.
    pub fn options(&self, options: &Options) -> Result<Options> {
        Ok(Options {
            targets: vec![Target::Base, Target::Filter],
            settings: serde_json::from_str(self.settings)?,
            ids: self.ids,
            envoy_workers: self.workers,
            ..options.clone()
        })
    }

    /// Returns a readable name.
    pub fn title(&self) -> String {
        let settings = match self.settings {
            "{}" if self.workers == 1 => "as shipped".to_owned(),
            "{}" => format!("{} workers", self.workers),
            settings => format!("`{settings}`"),
        };
        match self.ids {
            Ids::Given => settings,
            Ids::Missing => format!("{settings}, documents without ids"),
            Ids::Versioned => format!("{settings}, documents with versions"),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn the_first_variant_is_the_shipped_configuration() {
        let all = Variant::ALL.iter().map(|variant| variant.options(&Options::parse_from(["bench"])).unwrap());
        let settings: Vec<_> = all.map(|options| (options.targets, options.settings)).collect();
        assert!(settings.iter().all(|(targets, _)| *targets == [Target::Base, Target::Filter]));
        assert!(settings[0].1.as_object().unwrap().is_empty());
    }

    #[test]
    fn titles_are_unique() {
        let mut titles: Vec<_> = Variant::ALL.iter().map(Variant::title).collect();
        titles.sort();
        titles.dedup();
        assert_eq!(titles.len(), Variant::ALL.len());
    }
}
