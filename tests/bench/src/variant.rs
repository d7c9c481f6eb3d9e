//! What a sweep compares with the shipped configuration.

use anyhow::Result;
use serde::Serialize;

use crate::documents::Ids;
use crate::options::Options;
use crate::target::Target;

/// Another configuration of the filter.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Variant {
    /// JSON that is merged into the shipped one.
    pub settings: &'static str,
    /// Whether the documents' ids are given or missing, in both.
    pub ids: Ids,
    /// Worker threads of its Envoy; the shipped one has one.
    pub workers: u32,
}

impl Variant {
    /// The shipped configuration itself comes first: it shows how far two runs of the same are apart.
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

    /// How the shipped configuration is compared with it.
    pub fn options(&self, options: &Options) -> Result<Options> {
        Ok(Options {
            targets: vec![Target::Base, Target::Filter],
            settings: serde_json::from_str(self.settings)?,
            ids: self.ids,
            envoy_workers: self.workers,
            ..options.clone()
        })
    }

    /// For people.
    pub fn title(&self) -> String {
        let settings = match self.settings {
            "{}" if self.workers == 1 => "as shipped".to_owned(),
            "{}" => format!("{} workers", self.workers),
            settings => format!("`{settings}`"),
        };
        match self.ids {
            Ids::Given => settings,
            Ids::Missing => format!("{settings}, documents without ids"),
        }
    }
}
