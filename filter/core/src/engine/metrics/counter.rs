use super::family::{self, Family};
use super::{Label, metric_name};
use crate::engine::pass_through::PassThrough;
use crate::routing::{Unrouted, UpstreamId, Upstreams};

/// A metric that only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counter {
    /// Bulk requests that were split and answered here.
    RequestsMerged,
    /// Bulk requests that passed through unchanged, by reason.
    RequestsPassedThrough(PassThrough),
    /// Bulk requests whose client disconnected before the answer.
    RequestsAbandoned,
    /// Operations in the requests that were split.
    Operations,
    /// Operations in split requests that went to the coordinating upstream because their node is not known, by reason.
    OperationsUnrouted(Unrouted),
    /// Batches sent, by upstream.
    Batches(UpstreamId),
    /// Operations in these batches.
    BatchOperations(UpstreamId),
    /// Requests with operations in these batches.
    BatchRequests(UpstreamId),
    /// Bytes of the bodies of these batches, before compression.
    BatchBytes(UpstreamId),
    /// Microseconds that the first request of each batch was held.
    HoldMicroseconds(UpstreamId),
    /// Microseconds from sending each batch to its answer, or to the end of the call without one.
    UpstreamMicroseconds(UpstreamId),
    /// Batches that were out for much longer than usual, so that nothing else waited for them, by upstream.
    BatchesLate(UpstreamId),
    /// Batches that could not be sent to this upstream and went to the coordinating upstream.
    BatchesRedirected(UpstreamId),
    /// Batches that were sent again.
    BatchesRetried(RetryCause, UpstreamId),
    /// Batches of several requests that were refused together, as a whole or on one shard, and whose requests were sent
    /// again separately.
    BatchesSeparated(UpstreamId),
    /// Answers with items that were not at the positions of their operations, by upstream.
    AnswersMismatched(UpstreamId),
    /// Operations that were answered with an unknown outcome, by upstream.
    OperationsUnknown(UpstreamId),
    /// New cluster states that were read.
    StateLoads,
    /// New cluster states that were taken over from another worker.
    StateTakeovers,
    /// Cluster-state polls that failed.
    StateErrors,
    /// Microseconds of work on the cluster state.
    StateBusyMicroseconds,
    /// Run-time settings that were ignored, counted each time they change.
    SwitchesInvalid,
}

/// The reason why a batch was sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RetryCause {
    /// The node refused it, or some of its operations, with 429.
    Busy,
    /// The connection broke before the answer.
    Lost,
}

impl RetryCause {
    /// All causes.
    pub const ALL: [Self; 2] = [Self::Busy, Self::Lost];

    fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Lost => "lost",
        }
    }
}

impl Counter {
    /// Returns its name, including its labels: `bulk_reshuffle_…_total.reason.X.upstream.Y`.
    pub fn name(self, upstreams: &Upstreams) -> String {
        metric_name(self.family(), &self.labels(upstreams))
    }

    /// Returns its family: the counters that differ only in their label values.
    pub fn family(self) -> &'static Family {
        match self {
            Self::RequestsMerged | Self::RequestsPassedThrough(_) | Self::RequestsAbandoned => &family::REQUESTS,
            Self::Operations => &family::OPERATIONS,
            Self::OperationsUnrouted(_) => &family::OPERATIONS_UNROUTED,
            Self::Batches(_) => &family::BATCHES,
            Self::BatchOperations(_) => &family::BATCH_OPERATIONS_TOTAL,
            Self::BatchRequests(_) => &family::BATCH_REQUESTS_TOTAL,
            Self::BatchBytes(_) => &family::BATCH_BYTES_TOTAL,
            Self::HoldMicroseconds(_) => &family::HOLD_MICROSECONDS_TOTAL,
            Self::UpstreamMicroseconds(_) => &family::UPSTREAM_MICROSECONDS_TOTAL,
            Self::BatchesLate(_) => &family::BATCHES_LATE,
            Self::BatchesRedirected(_) => &family::BATCHES_REDIRECTED,
            Self::BatchesRetried(..) => &family::BATCHES_RETRIED,
            Self::BatchesSeparated(_) => &family::BATCHES_SEPARATED,
            Self::AnswersMismatched(_) => &family::ANSWERS_MISMATCHED,
            Self::OperationsUnknown(_) => &family::OPERATIONS_UNKNOWN,
            Self::StateLoads => &family::STATE_LOADS,
            Self::StateTakeovers => &family::STATE_TAKEOVERS,
            Self::StateErrors => &family::STATE_ERRORS,
            Self::StateBusyMicroseconds => &family::STATE_BUSY,
            Self::SwitchesInvalid => &family::SWITCHES_INVALID,
        }
    }

    fn labels(self, upstreams: &Upstreams) -> Vec<(Label, String)> {
        let outcome = |outcome: &str| (Label::Outcome, outcome.to_owned());
        let reason = |reason: &str| (Label::Reason, reason.to_owned());
        let upstream = |upstream| (Label::Upstream, upstreams.name(upstream).to_string());
        match self {
            Self::RequestsMerged => vec![outcome("merged")],
            Self::RequestsPassedThrough(why) => vec![outcome("passed_through"), reason(why.name())],
            Self::RequestsAbandoned => vec![outcome("abandoned")],
            Self::OperationsUnrouted(why) => vec![reason(why.name())],
            Self::BatchesRetried(cause, to) => vec![reason(cause.name()), upstream(to)],
            Self::Batches(to)
            | Self::BatchOperations(to)
            | Self::BatchRequests(to)
            | Self::BatchBytes(to)
            | Self::HoldMicroseconds(to)
            | Self::UpstreamMicroseconds(to)
            | Self::BatchesLate(to)
            | Self::BatchesRedirected(to)
            | Self::BatchesSeparated(to)
            | Self::AnswersMismatched(to)
            | Self::OperationsUnknown(to) => vec![upstream(to)],
            Self::Operations
            | Self::StateLoads
            | Self::StateTakeovers
            | Self::StateErrors
            | Self::StateBusyMicroseconds
            | Self::SwitchesInvalid => vec![],
        }
    }

    /// Returns all possible counters for these upstreams.
    pub fn all(upstreams: impl IntoIterator<Item = UpstreamId>) -> impl Iterator<Item = Self> {
        let single = [
            Self::RequestsMerged,
            Self::RequestsAbandoned,
            Self::Operations,
            Self::StateLoads,
            Self::StateTakeovers,
            Self::StateErrors,
            Self::StateBusyMicroseconds,
            Self::SwitchesInvalid,
        ];
        let reasons = PassThrough::all().map(Self::RequestsPassedThrough);
        let unrouted = Unrouted::all().map(Self::OperationsUnrouted);
        single.into_iter().chain(reasons).chain(unrouted).chain(upstreams.into_iter().flat_map(Self::of_upstream))
    }

    /// Returns all counters of an upstream.
    fn of_upstream(upstream: UpstreamId) -> impl Iterator<Item = Self> {
        let counters: [fn(UpstreamId) -> Self; 11] = [
            Self::Batches,
            Self::BatchOperations,
            Self::BatchRequests,
            Self::BatchBytes,
            Self::HoldMicroseconds,
            Self::UpstreamMicroseconds,
            Self::BatchesLate,
            Self::BatchesRedirected,
            Self::BatchesSeparated,
            Self::AnswersMismatched,
            Self::OperationsUnknown,
        ];
        let retried = RetryCause::ALL.into_iter().map(move |cause| Self::BatchesRetried(cause, upstream));
        counters.into_iter().map(move |counter| counter(upstream)).chain(retried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::metrics::{Families, Kind};

    fn upstreams() -> Upstreams {
        let mut upstreams = Upstreams::new("es");
        upstreams.intern("es-0").unwrap();
        upstreams
    }

    #[test]
    fn names_end_with_the_labels() {
        let upstreams = upstreams();
        let name = |counter: Counter| counter.name(&upstreams);
        assert_eq!(name(Counter::Operations), "bulk_reshuffle_operations_total");
        assert_eq!(
            name(Counter::RequestsPassedThrough(PassThrough::NoState)),
            "bulk_reshuffle_requests_total.outcome.passed_through.reason.no_state"
        );
        assert_eq!(
            name(Counter::BatchesRetried(RetryCause::Busy, UpstreamId::COORDINATOR)),
            "bulk_reshuffle_batches_retried_total.reason.busy.upstream.es"
        );
    }

    #[test]
    fn every_counter_belongs_to_a_family_with_its_labels() {
        let upstreams = upstreams();
        let mut used: Vec<&str> = Vec::new();
        for counter in Counter::all(upstreams.ids()) {
            let family = counter.family();
            used.push(family.name);
            assert_eq!(family.kind, Kind::Counter, "{counter:?}");
            assert!(counter.labels(&upstreams).iter().all(|(label, _)| family.labels.contains(label)), "{counter:?}");
        }
        for family in Families::all().filter(|family| family.kind == Kind::Counter) {
            assert!(used.contains(&family.name), "{}", family.name);
        }
    }

    #[test]
    fn no_two_counters_have_the_same_name() {
        let upstreams = upstreams();
        let mut names: Vec<String> = Counter::all(upstreams.ids()).map(|counter| counter.name(&upstreams)).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
