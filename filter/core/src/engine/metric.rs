use super::PassThrough;
use crate::routing::{Unrouted, UpstreamId, Upstreams};

/// A counter. All of them only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Bulk requests that were split and answered here.
    RequestsMerged,
    /// Bulk requests that passed on whole, by reason.
    RequestsPassedThrough(PassThrough),
    /// Bulk requests whose client went away before the answer.
    RequestsAbandoned,
    /// Operations in the requests that were split.
    Operations,
    /// Those of them that went to the coordinating upstream because their node is not known, by reason.
    OperationsUnrouted(Unrouted),
    /// Batches sent, by upstream.
    Batches(UpstreamId),
    /// Operations in them.
    BatchOperations(UpstreamId),
    /// Requests that had operations in them.
    BatchRequests(UpstreamId),
    /// Bytes of their bodies, before they are compressed.
    BatchBytes(UpstreamId),
    /// Batches that could not be sent to this upstream and went to the coordinating one.
    BatchesRedirected(UpstreamId),
    /// Batches that were sent again after a refusal with 429 or a lost connection.
    BatchesRetried(UpstreamId),
    /// Batches of several requests that were refused as a whole and sent again one request at a time.
    BatchesSeparated(UpstreamId),
    /// Answers of which items did not stand where their operations were sent, by the upstream that was asked.
    AnswersMismatched(UpstreamId),
    /// Operations that were answered with an unknown outcome, by the upstream that was asked.
    OperationsUnknown(UpstreamId),
    /// New cluster states that were read.
    StateLoads,
    /// New cluster states that were taken over from another worker.
    StateTakeovers,
    /// Calls for the cluster state that failed.
    StateErrors,
    /// Run-time switches that were ignored, each time that they changed.
    SwitchesInvalid,
}

impl Metric {
    /// Its name: `bulk_reshuffle_` and what is counted, then `.reason.X` or `.upstream.X` for Envoy's stats tags.
    pub fn name(self, upstreams: &Upstreams) -> String {
        let by_upstream =
            |what: &str, upstream| format!("bulk_reshuffle_{what}_total.upstream.{}", upstreams.name(upstream));
        match self {
            Self::RequestsMerged => "bulk_reshuffle_requests_merged_total".to_owned(),
            Self::RequestsPassedThrough(why) => {
                format!("bulk_reshuffle_requests_passed_through_total.reason.{}", why.name())
            }
            Self::RequestsAbandoned => "bulk_reshuffle_requests_abandoned_total".to_owned(),
            Self::Operations => "bulk_reshuffle_operations_total".to_owned(),
            Self::OperationsUnrouted(why) => {
                format!("bulk_reshuffle_operations_unrouted_total.reason.{}", why.name())
            }
            Self::Batches(upstream) => by_upstream("batches", upstream),
            Self::BatchOperations(upstream) => by_upstream("batch_operations", upstream),
            Self::BatchRequests(upstream) => by_upstream("batch_requests", upstream),
            Self::BatchBytes(upstream) => by_upstream("batch_bytes", upstream),
            Self::BatchesRedirected(upstream) => by_upstream("batches_redirected", upstream),
            Self::BatchesRetried(upstream) => by_upstream("batches_retried", upstream),
            Self::BatchesSeparated(upstream) => by_upstream("batches_separated", upstream),
            Self::AnswersMismatched(upstream) => by_upstream("answers_mismatched", upstream),
            Self::OperationsUnknown(upstream) => by_upstream("operations_unknown", upstream),
            Self::StateLoads => "bulk_reshuffle_state_loads_total".to_owned(),
            Self::StateTakeovers => "bulk_reshuffle_state_takeovers_total".to_owned(),
            Self::StateErrors => "bulk_reshuffle_state_errors_total".to_owned(),
            Self::SwitchesInvalid => "bulk_reshuffle_switches_invalid_total".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_what_becomes_a_label() {
        let upstreams = Upstreams::new("es");
        let name = |metric: Metric| metric.name(&upstreams);
        assert_eq!(name(Metric::Operations), "bulk_reshuffle_operations_total");
        assert_eq!(
            name(Metric::RequestsPassedThrough(PassThrough::NoState)),
            "bulk_reshuffle_requests_passed_through_total.reason.no_state"
        );
        assert_eq!(name(Metric::BatchBytes(UpstreamId::COORDINATOR)), "bulk_reshuffle_batch_bytes_total.upstream.es");
    }
}
