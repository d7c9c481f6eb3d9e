//! The goals of the filter.

use std::fmt;

use bulk_reshuffle_bench::tables::Spread;

use crate::metric::Metric;
use crate::summary::Summary;
use crate::target::Target;
use crate::workload::Workload;

/// A bound on the filter, compared with another target in the same run, for one workload.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    pub workload: Workload,
    pub metric: Metric,
    /// The target that the filter is compared with.
    pub other: Target,
    pub bound: Bound,
}

/// A bound on the median of the filter's value divided by the other's, or minus the other's.
#[derive(Debug, Clone, Copy)]
pub enum Bound {
    RatioAtLeast(f64),
    RatioAtMost(f64),
    DifferenceAtMost(f64),
}

impl Goal {
    /// Returns what the filter reached, if it was measured.
    pub fn reached(&self, summary: Summary) -> Option<Spread> {
        match self.bound {
            Bound::RatioAtLeast(_) | Bound::RatioAtMost(_) => summary.ratios(self.workload, self.metric, self.other),
            Bound::DifferenceAtMost(_) => summary.differences(self.workload, self.metric, self.other),
        }
    }

    /// Returns whether that meets the bound.
    pub fn is_met(&self, reached: Spread) -> bool {
        match self.bound {
            Bound::RatioAtLeast(bound) => reached.median >= bound,
            Bound::RatioAtMost(bound) | Bound::DifferenceAtMost(bound) => reached.median <= bound,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RatioAtLeast(bound) => write!(formatter, "at least {bound} ×"),
            Self::RatioAtMost(bound) => write!(formatter, "at most {bound} ×"),
            Self::DifferenceAtMost(bound) => write!(formatter, "at most {bound} more"),
        }
    }
}

const SINGLE: Workload = Workload::of_clients(1, 256);
const TENS: Workload = Workload::of_clients(10, 64);
const HUNDREDS: Workload = Workload::of_clients(100, 32);
const THOUSANDS: Workload = Workload::of_clients(1_000, 8);
const LARGE: Workload = Workload::of_clients(10_000, 1);
const ALONE: Workload = Workload::of_clients(1, 1);

pub const GOALS: [Goal; 20] = [
    against_direct(SINGLE, Metric::Throughput, Bound::RatioAtLeast(4.0)),
    against_direct(SINGLE, Metric::ClusterCpu, Bound::RatioAtMost(0.2)),
    against_plain(SINGLE, Metric::Throughput, Bound::RatioAtLeast(1.0)),
    against_plain(SINGLE, Metric::EnvoyCpu, Bound::RatioAtMost(0.3)),
    against_direct(TENS, Metric::Throughput, Bound::RatioAtLeast(4.5)),
    against_direct(TENS, Metric::P99, Bound::RatioAtMost(0.3)),
    against_plain(TENS, Metric::Throughput, Bound::RatioAtLeast(1.0)),
    against_direct(HUNDREDS, Metric::Throughput, Bound::RatioAtLeast(1.8)),
    against_direct(HUNDREDS, Metric::P99, Bound::RatioAtMost(1.0)),
    against_plain(HUNDREDS, Metric::Throughput, Bound::RatioAtLeast(1.0)),
    against_direct(THOUSANDS, Metric::Throughput, Bound::RatioAtLeast(1.15)),
    against_direct(THOUSANDS, Metric::P99, Bound::RatioAtMost(1.0)),
    against_plain(THOUSANDS, Metric::Throughput, Bound::RatioAtLeast(1.0)),
    against_plain(THOUSANDS, Metric::EnvoyCpu, Bound::RatioAtMost(1.1)),
    against_direct(LARGE, Metric::Throughput, Bound::RatioAtLeast(1.0)),
    against_direct(LARGE, Metric::BytesBetweenNodes, Bound::RatioAtMost(0.05)),
    against_plain(LARGE, Metric::Throughput, Bound::RatioAtLeast(1.0)),
    against_plain(LARGE, Metric::EnvoyCpu, Bound::RatioAtMost(1.3)),
    against_direct(ALONE, Metric::Throughput, Bound::RatioAtLeast(0.9)),
    against_plain(ALONE, Metric::P50, Bound::DifferenceAtMost(1.5)),
];

const fn against_direct(workload: Workload, metric: Metric, bound: Bound) -> Goal {
    Goal { workload, metric, other: Target::Direct, bound }
}

const fn against_plain(workload: Workload, metric: Metric, bound: Bound) -> Goal {
    Goal { workload, metric, other: Target::Plain, bound }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_decides() {
        let reached = Spread { min: 0.5, median: 1.0, max: 2.0 };
        let is_met = |bound| against_direct(ALONE, Metric::P50, bound).is_met(reached);
        assert!(is_met(Bound::RatioAtLeast(1.0)) && !is_met(Bound::RatioAtLeast(1.1)));
        assert!(is_met(Bound::RatioAtMost(1.0)) && !is_met(Bound::RatioAtMost(0.9)));
        assert!(is_met(Bound::DifferenceAtMost(1.0)) && !is_met(Bound::DifferenceAtMost(0.9)));
    }
}
