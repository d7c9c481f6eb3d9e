use crate::engine::pass_through::PassThrough;
use crate::routing::{Unrouted, UpstreamId};

metrics! {
    /// A metric that only grows.
    Counter;
    /// Bulk requests that were split and answered here.
    RequestsMerged = REQUESTS, Outcome "merged";
    /// Bulk requests that passed through unchanged, by reason.
    RequestsPassedThrough(why: PassThrough) = REQUESTS, Outcome "passed_through";
    /// Bulk requests whose client disconnected before the answer.
    RequestsAbandoned = REQUESTS, Outcome "abandoned";
    /// Single documents that were answered from a batch.
    DocumentsMerged = SINGLE_DOCUMENTS, Outcome "merged";
    /// Single documents that were refused in a batch, so that their requests were sent themselves.
    DocumentsRefused = SINGLE_DOCUMENTS, Outcome "refused";
    /// Operations in the requests that were split.
    Operations = OPERATIONS;
    /// Operations in split requests that went to the coordinator because their node is not known, by reason.
    OperationsUnrouted(why: Unrouted) = OPERATIONS_UNROUTED;
    /// Batches sent, by upstream.
    Batches(to: UpstreamId) = BATCHES;
    /// Operations in these batches.
    BatchOperations(to: UpstreamId) = BATCH_OPERATIONS_TOTAL;
    /// Requests with operations in these batches.
    BatchRequests(to: UpstreamId) = BATCH_REQUESTS_TOTAL;
    /// Bytes of the bodies of these batches, before compression.
    BatchBytes(to: UpstreamId) = BATCH_BYTES_TOTAL;
    /// Microseconds that the first request of each batch was held.
    HoldMicroseconds(to: UpstreamId) = HOLD_MICROSECONDS_TOTAL;
    /// Microseconds from sending each batch to its answer, or to the end of the call without one.
    UpstreamMicroseconds(to: UpstreamId) = UPSTREAM_MICROSECONDS_TOTAL;
    /// Batches that were out for much longer than usual, so that nothing else waited for them, by upstream.
    BatchesLate(to: UpstreamId) = BATCHES_LATE;
    /// How often the slots of an upstream were halved.
    SlotsHalved(to: UpstreamId) = SLOTS_HALVED;
    /// Batches that could not be sent to this upstream and went to the coordinator.
    BatchesRedirected(to: UpstreamId) = BATCHES_REDIRECTED;
    /// Batches that were sent again because the node refused them, or some of their operations, with 429.
    BatchesRetriedBusy(to: UpstreamId) = BATCHES_RETRIED, Reason "busy";
    /// Batches that were sent again because the connection broke before the answer.
    BatchesRetriedLost(to: UpstreamId) = BATCHES_RETRIED, Reason "lost";
    /// Batches of several requests that were refused together, as a whole or on one shard, and whose requests were sent
    /// again separately.
    BatchesSeparated(to: UpstreamId) = BATCHES_SEPARATED;
    /// Answers with items that were not at the positions of their operations, by upstream.
    AnswersMismatched(to: UpstreamId) = ANSWERS_MISMATCHED;
    /// Operations that were answered with an unknown outcome, by upstream.
    OperationsUnknown(to: UpstreamId) = OPERATIONS_UNKNOWN;
    /// Observed bulk requests that would have been split.
    ObservedMerged = OBSERVED_REQUESTS, Outcome "merged";
    /// Observed bulk requests that would have passed through, by reason.
    ObservedPassedThrough(why: PassThrough) = OBSERVED_REQUESTS, Outcome "passed_through";
    /// Operations in observed requests that would have gone to the coordinator, by reason.
    ObservedUnrouted(why: Unrouted) = OBSERVED_UNROUTED;
    /// Batches that would have been sent, by upstream.
    ObservedBatches(to: UpstreamId) = OBSERVED_BATCHES;
    /// Observed requests with operations in these batches.
    ObservedBatchRequests(to: UpstreamId) = OBSERVED_BATCH_REQUESTS;
    /// Operations in these batches.
    ObservedBatchOperations(to: UpstreamId) = OBSERVED_BATCH_OPERATIONS;
    /// Bytes of the bodies of these batches.
    ObservedBatchBytes(to: UpstreamId) = OBSERVED_BATCH_BYTES;
    /// Bytes of observed operations whose primary's node is known, and the node that has answered.
    ObservedLocatedBytes = OBSERVED_BYTES, Outcome "located";
    /// Bytes of the other observed operations.
    ObservedUnlocatedBytes = OBSERVED_BYTES, Outcome "unlocated";
    /// Of the located bytes, those that the node which has answered sent to another node.
    ObservedBytesBetweenNodes = OBSERVED_BYTES_BETWEEN_NODES;
    /// Of the located bytes, those that crossed from one zone to another, once for each crossing.
    ObservedBytesBetweenZones = OBSERVED_BYTES_BETWEEN_ZONES, Outcome "passed_through";
    /// Of the located bytes, those that would have crossed to the zone of their primary.
    ObservedBytesToOtherZones = OBSERVED_BYTES_BETWEEN_ZONES, Outcome "merged";
    /// New cluster states that were read.
    StateLoads = STATE_LOADS;
    /// New cluster states that were taken over from another worker.
    StateTakeovers = STATE_TAKEOVERS;
    /// Cluster-state polls that failed.
    StateErrors = STATE_ERRORS;
    /// Microseconds of work on the cluster state.
    StateBusyMicroseconds = STATE_BUSY;
    /// Run-time settings that were ignored, and indices with ignored settings in their mappings, counted each time they
    /// change.
    SwitchesInvalid = SWITCHES_INVALID;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::metrics::{Families, Kind};
    use crate::routing::Upstreams;

    fn upstreams() -> Upstreams {
        let mut upstreams = Upstreams::new("es");
        upstreams.intern("es-0").unwrap();
        upstreams
    }

    #[test]
    fn names_end_with_the_labels() {
        let upstreams = upstreams();
        let name = |counter: Counter| counter.name(&upstreams);
        assert_eq!(name(Counter::Operations), "bulk_reshuffle_operations_total.coordinator.es");
        assert_eq!(
            name(Counter::RequestsPassedThrough(PassThrough::NoState)),
            "bulk_reshuffle_requests_total.outcome.passed_through.reason.no_state.coordinator.es"
        );
        assert_eq!(
            name(Counter::BatchesRetriedBusy(UpstreamId::COORDINATOR)),
            "bulk_reshuffle_batches_retried_total.reason.busy.upstream.es.coordinator.es"
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
