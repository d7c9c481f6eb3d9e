//! The results of all rounds of a run.

use bulk_reshuffle_bench::tables::Spread;

use crate::measurement::Measurement;
use crate::metric::Metric;
use crate::target::Target;
use crate::workload::Workload;

#[derive(Debug, Clone, Copy)]
pub struct Summary<'a>(pub &'a [Measurement]);

impl<'a> Summary<'a> {
    /// Returns a target's values over all rounds.
    pub fn values(self, workload: Workload, target: Target, metric: Metric) -> Option<Spread> {
        Spread::of(self.of(workload, target).filter_map(|measured| metric.of(measured)))
    }

    /// Returns the filter's value divided by another target's in the same round, over all rounds.
    pub fn ratios(self, workload: Workload, metric: Metric, other: Target) -> Option<Spread> {
        Spread::of(self.pairs(workload, metric, other).map(|(filter, other)| filter / other)).filter(Spread::is_finite)
    }

    /// Returns the filter's value minus another target's in the same round, over all rounds.
    pub fn differences(self, workload: Workload, metric: Metric, other: Target) -> Option<Spread> {
        Spread::of(self.pairs(workload, metric, other).map(|(filter, other)| filter - other))
    }

    fn pairs(self, workload: Workload, metric: Metric, other: Target) -> impl Iterator<Item = (f64, f64)> {
        self.of(workload, Target::Filter).filter_map(move |filter| {
            let other = self.of(workload, other).find(|other| other.round == filter.round)?;
            Some((metric.of(filter)?, metric.of(other)?))
        })
    }

    fn of(self, workload: Workload, target: Target) -> impl Iterator<Item = &'a Measurement> {
        self.0.iter().filter(move |measured| measured.workload == workload && measured.target == target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKLOAD: Workload = Workload::of_clients(10, 64);

    fn measured(round: usize, target: Target, documents: u64) -> Measurement {
        Measurement { workload: WORKLOAD, round, target, seconds: 2.0, documents, ..Measurement::default() }
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let measurements = [
            measured(1, Target::Direct, 100),
            measured(1, Target::Filter, 400),
            measured(2, Target::Direct, 1_000),
            measured(2, Target::Filter, 3_000),
            measured(3, Target::Direct, 10),
            measured(3, Target::Filter, 20),
            measured(4, Target::Filter, 20),
        ];
        let summary = Summary(&measurements);
        let ratios = summary.ratios(WORKLOAD, Metric::Throughput, Target::Direct);
        assert_eq!(ratios, Some(Spread { min: 2.0, median: 3.0, max: 4.0 }));
        let differences = summary.differences(WORKLOAD, Metric::Throughput, Target::Direct);
        assert_eq!(differences, Some(Spread { min: 5.0, median: 150.0, max: 1_000.0 }));
        let values = summary.values(WORKLOAD, Target::Direct, Metric::Throughput);
        assert_eq!(values, Some(Spread { min: 5.0, median: 50.0, max: 500.0 }));
    }

    #[test]
    fn unmeasured_targets_are_not_compared() {
        let measurements = [measured(1, Target::Filter, 400)];
        assert_eq!(Summary(&measurements).ratios(WORKLOAD, Metric::Throughput, Target::Plain), None);
        let other = Workload::of_clients(1, 1);
        assert_eq!(Summary(&measurements).values(other, Target::Filter, Metric::Throughput), None);
    }
}
