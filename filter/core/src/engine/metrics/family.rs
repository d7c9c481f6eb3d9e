//! Every metric, once: what it is called, of what kind it is, and what it says. The table in the documentation is
//! made of this.

/// Metrics of one name, that differ in their labels' values.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// With its unit; a counter's ends with `_total`.
    pub name: &'static str,
    /// What can be done with it.
    pub kind: Kind,
    /// What tells them apart.
    pub labels: &'static [Label],
    /// What it counts or measures.
    pub help: &'static str,
}

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only ever grows.
    Counter,
    /// A value that goes up and down, and how the values of several workers are combined.
    Gauge(Workers),
    /// How values are spread.
    Histogram,
}

/// What a gauge says of several workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// What they have in all.
    Sum,
    /// What the one has that has most, and had since Envoy started.
    Largest,
    /// What the last one said, which all of them say.
    Last,
}

/// What tells metrics of one name apart. The number of values is bounded by what the filter and the configuration know,
/// whatever clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// What became of a request.
    Outcome,
    /// Why.
    Reason,
    /// An Envoy cluster: a node's own, or the coordinating one.
    Upstream,
}

impl Label {
    /// As it is called in Prometheus, and before its value in Envoy's name of the metric.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outcome => "outcome",
            Self::Reason => "reason",
            Self::Upstream => "upstream",
        }
    }
}

/// All of them.
#[derive(Debug)]
pub struct Families;

macro_rules! families {
    ($($constant:ident = $kind:expr, $name:literal, [$($label:ident),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $constant: Family = Family {
                name: concat!("bulk_reshuffle_", $name),
                kind: $kind,
                labels: &[$(Label::$label),*],
                help: $help,
            };
        )*

        impl Families {
            /// In the order in which one wants to read of them.
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
        "Bulk requests, by what became of them: `merged` (split and answered by the filter), `passed_through` (to the \
         cluster as they came, each with a `reason`) or `abandoned` (the client went away).";
    OPERATIONS = Kind::Counter, "operations_total", [],
        "Operations in the requests that were split.";
    OPERATIONS_UNROUTED = Kind::Counter, "operations_unrouted_total", [Reason],
        "Those of them that went to the coordinating upstream, because their node is not known.";
    BATCHES = Kind::Counter, "batches_total", [Upstream],
        "Batches sent.";
    BATCH_REQUESTS_TOTAL = Kind::Counter, "batch_requests_total", [Upstream],
        "Requests that had operations in them, once for each batch.";
    BATCH_OPERATIONS_TOTAL = Kind::Counter, "batch_operations_total", [Upstream],
        "Operations in them.";
    BATCH_BYTES_TOTAL = Kind::Counter, "batch_bytes_total", [Upstream],
        "Bytes of their bodies, before compression.";
    HOLD_MICROSECONDS_TOTAL = Kind::Counter, "hold_microseconds_total", [Upstream],
        "How long the first request of each batch was held, in all.";
    UPSTREAM_MICROSECONDS_TOTAL = Kind::Counter, "upstream_microseconds_total", [Upstream],
        "How long the batches were on their way, from sending to the answer, in all.";
    BATCHES_REDIRECTED = Kind::Counter, "batches_redirected_total", [Upstream],
        "Batches that this upstream could not be sent, or that waited for it when its node had left: they went to the \
         coordinating one.";
    BATCHES_RETRIED = Kind::Counter, "batches_retried_total", [Reason, Upstream],
        "Batches that were sent again: after a 429 for all or some of their operations (`busy`), or because the \
         connection broke (`lost`).";
    BATCHES_SEPARATED = Kind::Counter, "batches_separated_total", [Upstream],
        "Batches that were refused as a whole and sent again one request at a time.";
    ANSWERS_MISMATCHED = Kind::Counter, "answers_mismatched_total", [Upstream],
        "Answers with items that did not stand where their operations were sent.";
    OPERATIONS_UNKNOWN = Kind::Counter, "operations_unknown_total", [Upstream],
        "Operations that were answered with 503 or 504 because their outcome is unknown.";
    HOLD_MICROSECONDS = Kind::Histogram, "hold_microseconds", [],
        "How long the first request of a batch was held.";
    UPSTREAM_MICROSECONDS = Kind::Histogram, "upstream_microseconds", [],
        "How long a batch was on its way.";
    BATCH_REQUESTS = Kind::Histogram, "batch_requests", [],
        "Requests that have operations in a batch.";
    BATCH_OPERATIONS = Kind::Histogram, "batch_operations", [],
        "Operations in a batch.";
    BATCH_BYTES = Kind::Histogram, "batch_bytes", [],
        "Bytes of a batch's body, before compression.";
    HELD_REQUESTS = SUM, "held_requests", [Upstream],
        "Requests that have operations waiting to be sent.";
    HELD_OPERATIONS = SUM, "held_operations", [Upstream],
        "Those operations.";
    HELD_BYTES = SUM, "held_bytes", [Upstream],
        "Their bytes.";
    IN_FLIGHT_BATCHES = SUM, "in_flight_batches", [Upstream],
        "Batches on their way.";
    IN_FLIGHT_OPERATIONS = SUM, "in_flight_operations", [Upstream],
        "Operations in them.";
    IN_FLIGHT_BYTES = SUM, "in_flight_bytes", [Upstream],
        "Their bytes.";
    MEMORY = SUM, "memory_bytes", [],
        "Bytes of the requests and answers that are here, and the room for the items that are still to come: what `limits.memory` bounds.";
    MEMORY_LIMIT = SUM, "memory_limit_bytes", [],
        "`limits.memory` of all workers that have had a request.";
    MEMORY_PEAK = LARGEST, "memory_peak_bytes", [],
        "The most bytes of requests and answers that one worker has had at the same time.";
    VM_MEMORY_PEAK = LARGEST, "vm_memory_peak_bytes", [],
        "The largest memory that the VM of one worker has had.";
    STATE_VERSION = LAST, "state_version", [],
        "The cluster's number for the state by which operations are routed.";
    STATE_VERIFIED = LAST, "state_verified_timestamp_seconds", [],
        "When it was last known to be the cluster's newest, in seconds since 1970. Without requests nobody asks.";
    STATE_LOADS = Kind::Counter, "state_loads_total", [],
        "New cluster states that a worker has read.";
    STATE_TAKEOVERS = Kind::Counter, "state_takeovers_total", [],
        "New cluster states that a worker took over from another.";
    STATE_ERRORS = Kind::Counter, "state_errors_total", [],
        "Looks at the cluster that came to nothing.";
    STATE_BUSY = Kind::Counter, "state_busy_microseconds_total", [],
        "Time that following the cluster state has taken of the workers.";
    STATE_STEP = Kind::Histogram, "state_step_microseconds", [],
        "How long it kept one of them at a time: no request of that worker goes on meanwhile.";
    SWITCHES_INVALID = Kind::Counter, "switches_invalid_total", [],
        "Run-time switches that were ignored, counted when they change.";
}
