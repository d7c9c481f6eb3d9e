//! The definition of every metric: its name, kind, labels and description. The table in the documentation is generated
//! from these definitions.

/// A group of metrics with one name and different label values.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// The name, with its unit. A counter's name ends with `_total`.
    pub name: &'static str,
    /// The kind of the metrics.
    pub kind: Kind,
    /// The labels that distinguish the metrics.
    pub labels: &'static [Label],
    /// The description.
    pub help: &'static str,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value that only grows.
    Counter,
    /// A value that goes up and down, and how the values of several workers are combined.
    Gauge(Workers),
    /// A distribution of values.
    Histogram,
}

/// The way in which a gauge combines the values of several workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// The sum of all workers.
    Sum,
    /// The largest value of any worker since Envoy started.
    Largest,
    /// The most recent value. All workers report the same one.
    Last,
}

/// A label that distinguishes metrics of one name. Its values come from the filter and the configuration only, so
/// clients cannot increase their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// The outcome of a request.
    Outcome,
    /// The reason for the outcome.
    Reason,
    /// An Envoy cluster: a node's own, or the coordinator.
    Upstream,
    /// The coordinator of the filter whose metric it is. It tells the search clusters of one Envoy apart.
    Coordinator,
}

impl Label {
    /// Returns the label's name in Prometheus, which also precedes its value in Envoy's name of the metric.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outcome => "outcome",
            Self::Reason => "reason",
            Self::Upstream => "upstream",
            Self::Coordinator => "coordinator",
        }
    }
}

/// All metric families.
#[derive(Debug)]
pub struct Families;

macro_rules! families {
    ($($constant:ident = $kind:expr, $name:literal, [$($label:ident),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $constant: Family = Family {
                name: concat!("bulk_reshuffle_", $name),
                kind: $kind,
                labels: &[$(Label::$label,)* Label::Coordinator],
                help: $help,
            };
        )*

        impl Families {
            /// Returns all families, in the order of the documentation.
            pub fn all() -> impl Iterator<Item = &'static Family> {
                [$(&$constant),*].into_iter()
            }
        }
    };
}

const SUM: Kind = Kind::Gauge(Workers::Sum);
const LARGEST: Kind = Kind::Gauge(Workers::Largest);
const LAST: Kind = Kind::Gauge(Workers::Last);

families! {
    REQUESTS = Kind::Counter, "requests_total", [Outcome, Reason],
        "Bulk requests by outcome: `merged` (split and answered by the filter), `passed_through` (forwarded unchanged, \
         with a `reason`) or `abandoned` (the client disconnected). \
         With `single_documents`, requests for single documents count too.";
    SINGLE_DOCUMENTS = Kind::Counter, "single_documents_total", [Outcome],
        "Merged requests for single documents: `merged` (answered from a batch) or `refused` (refused in a batch, so \
         that the filter sent the request itself).";
    OPERATIONS = Kind::Counter, "operations_total", [],
        "Operations in split requests.";
    OPERATIONS_UNROUTED = Kind::Counter, "operations_unrouted_total", [Reason],
        "Operations in split requests that went to the coordinator because their node is not known.";
    BATCHES = Kind::Counter, "batches_total", [Upstream],
        "Batches sent.";
    BATCH_REQUESTS_TOTAL = Kind::Counter, "batch_requests_total", [Upstream],
        "Requests with operations in sent batches. A request counts once for each batch.";
    BATCH_OPERATIONS_TOTAL = Kind::Counter, "batch_operations_total", [Upstream],
        "Operations in sent batches.";
    BATCH_BYTES_TOTAL = Kind::Counter, "batch_bytes_total", [Upstream],
        "Bytes of the bodies of sent batches, before compression.";
    HOLD_MICROSECONDS_TOTAL = Kind::Counter, "hold_microseconds_total", [Upstream],
        "Total time that the first request of each batch was held.";
    UPSTREAM_MICROSECONDS_TOTAL = Kind::Counter, "upstream_microseconds_total", [Upstream],
        "Total time that batches were in flight, from sending to the answer.";
    BATCHES_LATE = Kind::Counter, "batches_late_total", [Upstream],
        "Batches that were out for much longer than this upstream's batches usually are. Nothing else waited for them.";
    SLOTS_HALVED = Kind::Counter, "slots_halved_total", [Upstream],
        "How often the slots of this upstream were halved, because its node was overloaded or a batch timed out.";
    BATCHES_REDIRECTED = Kind::Counter, "batches_redirected_total", [Upstream],
        "Batches that went to the coordinator instead, because they could not be sent to this upstream or \
         its node had left the cluster. Those of the coordinator itself were offered to it again.";
    BATCHES_RETRIED = Kind::Counter, "batches_retried_total", [Reason, Upstream],
        "Batches that were sent again: after a 429 for some or all of their operations (`busy`), or because the \
         connection broke (`lost`).";
    BATCHES_SEPARATED = Kind::Counter, "batches_separated_total", [Upstream],
        "Batches that were refused together, as a whole or on one shard, and whose requests were sent again separately.";
    ANSWERS_MISMATCHED = Kind::Counter, "answers_mismatched_total", [Upstream],
        "Answers with items that were not at the positions of their operations.";
    OPERATIONS_UNKNOWN = Kind::Counter, "operations_unknown_total", [Upstream],
        "Operations that were answered with 503 or 504 because their outcome was unknown.";
    OBSERVED_REQUESTS = Kind::Counter, "observed_requests_total", [Outcome, Reason],
        "Bulk requests that were only observed, by the outcome that they would have had: `merged`, or `passed_through` \
         with a `reason`.";
    OBSERVED_UNROUTED = Kind::Counter, "observed_operations_unrouted_total", [Reason],
        "Operations in observed requests that would have gone to the coordinator because their node is not known.";
    OBSERVED_BATCHES = Kind::Counter, "observed_batches_total", [Upstream],
        "Batches in which observed requests would have been sent.";
    OBSERVED_BATCH_REQUESTS = Kind::Counter, "observed_batch_requests_total", [Upstream],
        "Observed requests with operations in these batches. A request counts once for each batch.";
    OBSERVED_BATCH_OPERATIONS = Kind::Counter, "observed_batch_operations_total", [Upstream],
        "Operations in these batches.";
    OBSERVED_BATCH_BYTES = Kind::Counter, "observed_batch_bytes_total", [Upstream],
        "Bytes of the bodies of these batches.";
    OBSERVED_BYTES = Kind::Counter, "observed_bytes_total", [Outcome],
        "Bytes of operations in observed requests. `located` are those whose primary's node is known, and the node that \
         has answered the request.";
    OBSERVED_BYTES_BETWEEN_NODES = Kind::Counter, "observed_bytes_between_nodes_total", [],
        "Of the located bytes, those that went on from the node that has answered to the primary's node. With the filter, \
         none do.";
    OBSERVED_BYTES_BETWEEN_ZONES = Kind::Counter, "observed_bytes_between_zones_total", [Outcome],
        "Of the located bytes, those that went from one zone to another, once for each time: now, when they are \
         `passed_through`, and with the filter, `merged`.";
    HOLD_MICROSECONDS = Kind::Histogram, "hold_microseconds", [],
        "Time that the first request of a batch was held.";
    UPSTREAM_MICROSECONDS = Kind::Histogram, "upstream_microseconds", [],
        "Time that a batch was in flight.";
    BATCH_REQUESTS = Kind::Histogram, "batch_requests", [],
        "Requests with operations in a batch.";
    BATCH_OPERATIONS = Kind::Histogram, "batch_operations", [],
        "Operations in a batch.";
    BATCH_BYTES = Kind::Histogram, "batch_bytes", [],
        "Bytes of a batch's body, before compression.";
    HELD_REQUESTS = SUM, "held_requests", [Upstream],
        "Requests with operations that wait to be sent.";
    HELD_OPERATIONS = SUM, "held_operations", [Upstream],
        "Operations that wait to be sent.";
    HELD_BYTES = SUM, "held_bytes", [Upstream],
        "Bytes of operations that wait to be sent.";
    IN_FLIGHT_BATCHES = SUM, "in_flight_batches", [Upstream],
        "Batches in flight.";
    IN_FLIGHT_OPERATIONS = SUM, "in_flight_operations", [Upstream],
        "Operations in flight.";
    IN_FLIGHT_BYTES = SUM, "in_flight_bytes", [Upstream],
        "Bytes of operations in flight.";
    SLOTS = SUM, "slots", [Upstream],
        "Batches that may be in flight at once to an upstream. Each worker has `dispatch.max_in_flight_per_node` at most, \
         and fewer at the start and after the node was overloaded.";
    UPSTREAMS_FAULTY = LAST, "upstreams_faulty", [Upstream],
        "1 if the upstream does not lead to its node, or does not answer when the filter asks. The status says more.";
    MEMORY = SUM, "memory_bytes", [],
        "Bytes of requests and answers in memory, including room for the items that are still to come. `limits.memory` \
         bounds it.";
    MEMORY_LIMIT = SUM, "memory_limit_bytes", [],
        "Sum of `limits.memory` over the workers that have had a request.";
    MEMORY_PEAK = LARGEST, "memory_peak_bytes", [],
        "Peak of the bytes of requests and answers in one worker.";
    VM_MEMORY_PEAK = LARGEST, "vm_memory_peak_bytes", [],
        "Peak of the memory of one worker's VM.";
    STATE_VERSION = LAST, "state_version", [],
        "Version number of the cluster state by which operations are routed.";
    STATE_VERIFIED = LAST, "state_verified_timestamp_seconds", [],
        "Last time that this state was known to be the newest, in seconds since 1970.";
    STATE_LOADS = Kind::Counter, "state_loads_total", [],
        "New cluster states that a worker read from the cluster.";
    STATE_TAKEOVERS = Kind::Counter, "state_takeovers_total", [],
        "New cluster states that a worker took over from another.";
    STATE_ERRORS = Kind::Counter, "state_errors_total", [],
        "Failed cluster-state polls.";
    STATE_BUSY = Kind::Counter, "state_busy_microseconds_total", [],
        "Total time that workers spent on the cluster state.";
    STATE_STEP = Kind::Histogram, "state_step_microseconds", [],
        "Time that one step of work on the cluster state took. Meanwhile, that worker handles no requests.";
    SWITCHES_INVALID = Kind::Counter, "switches_invalid_total", [],
        "Ignored run-time settings, and indices with ignored settings in their mappings, counted when they change.";
}
