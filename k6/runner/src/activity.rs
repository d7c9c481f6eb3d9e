use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;
use bulk_reshuffle_stack::Envoy;

/// The filter's counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// Requests that were split and merged.
    pub merged: u64,
    /// Batches that were sent to the nodes.
    pub batches: u64,
    /// Requests that passed through, by reason.
    pub passed_through: BTreeMap<String, u64>,
}

impl Activity {
    /// Reads the counters from Envoy's statistics.
    pub async fn read(envoy: &Envoy) -> Result<Self> {
        const BATCHES: &str = "wasmcustom.bulk_reshuffle_batches_total.upstream.";
        const PASSED_THROUGH: &str = "wasmcustom.bulk_reshuffle_requests_total.outcome.passed_through.reason.";
        let stats = envoy.stats_with("bulk_reshuffle_").await?;
        let by_label = |prefix: &'static str| {
            stats.iter().filter_map(move |(name, count)| Some((name.strip_prefix(prefix)?.to_owned(), *count)))
        };
        Ok(Self {
            merged: stats.get("wasmcustom.bulk_reshuffle_requests_total.outcome.merged").copied().unwrap_or(0),
            batches: by_label(BATCHES).map(|(_, count)| count).sum(),
            passed_through: by_label(PASSED_THROUGH).collect(),
        })
    }

    /// Returns the growth since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        let growth = |(reason, count): (&String, &u64)| {
            let grown = count.saturating_sub(earlier.passed_through.get(reason).copied().unwrap_or(0));
            (grown > 0).then(|| (reason.clone(), grown))
        };
        Self {
            merged: self.merged.saturating_sub(earlier.merged),
            batches: self.batches.saturating_sub(earlier.batches),
            passed_through: self.passed_through.iter().filter_map(growth).collect(),
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons: Vec<String> =
            self.passed_through.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let passed = if reasons.is_empty() { "none".to_owned() } else { reasons.join(", ") };
        write!(
            formatter,
            "{} requests split and merged into {} batches, passed through: {passed}",
            self.merged, self.batches
        )
    }
}
