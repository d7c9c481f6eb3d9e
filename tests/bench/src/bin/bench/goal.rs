//! The goals of the filter.

use std::fmt;

use bulk_reshuffle_bench::tables::Spread;

use crate::documents::{Api, Ids};
use crate::metric::Metric;
use crate::options::Options;
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

/// Goals for documents that are sent one by one.
const OF_DOCUMENTS: [Goal; 2] = [
    against_direct(SINGLE, Metric::Throughput, Bound::RatioAtLeast(7.0)),
    against_plain(ALONE, Metric::Throughput, Bound::RatioAtLeast(0.95)),
];

/// Returns the goals for a run with these options.
pub fn goals(options: &Options) -> Vec<Goal> {
    if options.api == Api::Document {
        return OF_DOCUMENTS.to_vec();
    }
    let of_clients = match (options.node_processors, options.ids, options.shape.shards) {
        (0, ..) => ON_SHARED_PROCESSORS.to_vec(),
        (_, Ids::Given, 6) => [&throughput([8.0, 9.0, 4.0, 1.3, 1.15])[..], &OF_ENVOY].concat(),
        (_, Ids::Given, 60) => throughput([5.0, 6.0, 6.0, 2.5, 1.5]).to_vec(),
        (_, Ids::Missing, 60) => throughput([7.0, 9.0, 9.0, 3.2, 1.7]).to_vec(),
        _ => Vec::new(),
    };
    [&of_clients[..], &AT_RATES].concat()
}

/// Returns the goals for documents per second, from small requests to large ones.
fn throughput(bounds: [f64; 5]) -> [Goal; 5] {
    let [single, tens, hundreds, thousands, large] = bounds.map(Bound::RatioAtLeast);
    [(SINGLE, single), (TENS, tens), (HUNDREDS, hundreds), (THOUSANDS, thousands), (LARGE, large)]
        .map(|(workload, bound)| against_direct(workload, Metric::Throughput, bound))
}

const OF_ENVOY: [Goal; 6] = [
    against_plain(SINGLE, Metric::EnvoyCpu, Bound::RatioAtMost(0.3)),
    against_plain(TENS, Metric::EnvoyCpu, Bound::RatioAtMost(0.35)),
    against_plain(HUNDREDS, Metric::EnvoyCpu, Bound::RatioAtMost(0.5)),
    against_plain(THOUSANDS, Metric::EnvoyCpu, Bound::RatioAtMost(1.2)),
    against_plain(LARGE, Metric::EnvoyCpu, Bound::RatioAtMost(2.5)),
    against_plain(ALONE, Metric::Throughput, Bound::RatioAtLeast(0.97)),
];

const AT_RATES: [Goal; 3] = [
    against_direct(Workload::at_rate(1, 1_000), Metric::ClusterCpu, Bound::RatioAtMost(0.25)),
    against_direct(Workload::at_rate(1, 1_000), Metric::P99, Bound::RatioAtMost(1.0)),
    against_direct(Workload::at_rate(1, 3_000), Metric::ClusterCpu, Bound::RatioAtMost(0.15)),
];

const ON_SHARED_PROCESSORS: [Goal; 20] = [
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
    use clap::Parser;

    use super::*;

    #[test]
    fn the_goals_depend_on_who_has_the_processors_and_on_the_shards() {
        let wanted = |arguments: &[&str]| {
            let options = Options::parse_from([&["bench"], arguments].concat());
            let first = goals(&options).first().copied().unwrap();
            (first.workload, first.metric, first.bound.to_string())
        };
        let docs = |bound: &str| (SINGLE, Metric::Throughput, format!("at least {bound} ×"));
        assert_eq!(wanted(&[]), docs("4"));
        assert_eq!(wanted(&["--node-processors=1"]), docs("8"));
        assert_eq!(wanted(&["--node-processors=1", "--shards=60"]), docs("5"));
        assert_eq!(wanted(&["--node-processors=1", "--shards=60", "--ids=missing"]), docs("7"));
        let rate = "1x1000/s".parse().unwrap();
        assert_eq!(wanted(&["--node-processors=1", "--shards=5"]), (rate, Metric::ClusterCpu, "at most 0.25 ×".into()));
    }

    #[test]
    fn the_median_decides() {
        let reached = Spread { min: 0.5, median: 1.0, max: 2.0 };
        let is_met = |bound| against_direct(ALONE, Metric::P50, bound).is_met(reached);
        assert!(is_met(Bound::RatioAtLeast(1.0)) && !is_met(Bound::RatioAtLeast(1.1)));
        assert!(is_met(Bound::RatioAtMost(1.0)) && !is_met(Bound::RatioAtMost(0.9)));
        assert!(is_met(Bound::DifferenceAtMost(1.0)) && !is_met(Bound::DifferenceAtMost(0.9)));
    }
}
