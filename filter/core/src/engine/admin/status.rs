use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

use super::{Build, Health, View};
use crate::Time;
use crate::config::Config;
use crate::engine::cluster_view::ClusterView;
use crate::engine::explain::{PipelineVerdict, Why};
use crate::engine::metrics::{Counter, Gauge};
use crate::engine::observation::{Figures, Reported};
use crate::engine::pass_through::PassThrough;
use crate::routing::{Node, Pipelines, Unrouted, UpstreamCheck, UpstreamId, Version};

/// The maximum number of nodes in the status. Each takes about twenty calls to Envoy.
const MAX_NODES: usize = 256;

/// The maximum number of ignored settings in the status.
const MAX_IGNORED: usize = 10;

/// The maximum number of ingest pipelines in the status.
const MAX_PIPELINES: usize = 256;

/// The metrics of all workers.
#[derive(Debug)]
pub struct Totals {
    /// The counters, as read from Envoy.
    pub counters: BTreeMap<Counter, u64>,
    /// The gauges, as read from Envoy.
    pub gauges: BTreeMap<Gauge, u64>,
}

impl Totals {
    fn counter(&self, counter: Counter) -> u64 {
        self.counters.get(&counter).copied().unwrap_or_default()
    }

    fn gauge(&self, gauge: Gauge) -> u64 {
        self.gauges.get(&gauge).copied().unwrap_or_default()
    }

    /// Returns the counters that are not zero, by name.
    fn by_word<T: Copy>(
        &self,
        all: impl Iterator<Item = T>,
        counter: impl Fn(T) -> Counter,
        word: impl Fn(T) -> &'static str,
    ) -> BTreeMap<&'static str, u64> {
        all.map(|one| (word(one), self.counter(counter(one)))).filter(|(_, count)| *count > 0).collect()
    }
}

/// The filter's status.
#[derive(Debug, Serialize)]
pub struct Status<'a> {
    build: &'a Build,
    /// The wall clock's time, so that a client can compute rates.
    unix_milliseconds: u64,
    /// The effective configuration, including the cluster's run-time settings.
    configuration: &'a Config,
    /// The settings that are ignored, and why: first the run-time settings, then those in the mappings of indices.
    ignored_switches: Vec<String>,
    /// The number of further run-time settings, and of further indices with such settings.
    ignored_switches_left_out: usize,
    /// The known cluster state, if there is one.
    state: Option<State<'a>>,
    /// The last failure of this worker's polls, if none has succeeded since.
    state_problem: Option<String>,
    totals: All,
    /// The worker that answers the status request.
    worker: Worker,
    /// Who writes how, in requests that this worker has observed.
    writers: Vec<Reported<'a>>,
    /// The sum of further writers.
    other_writers: &'a Figures,
    coordinator: Upstream<'a>,
    nodes: Vec<OneNode<'a>>,
    /// The number of further nodes.
    nodes_left_out: usize,
    /// The verdicts on the ingest pipelines of the cluster, those that are not harmless first. The list is empty as long
    /// as no index has a pipeline and no request has named one.
    pipelines: Vec<PipelineVerdict>,
    /// The number of further pipelines.
    pipelines_left_out: usize,
}

#[derive(Debug, Serialize)]
struct State<'a> {
    #[serde(flatten)]
    version: &'a Version,
    /// The time since it was last known to be the newest.
    age_milliseconds: u64,
    refresh_milliseconds: u64,
    /// Whether polls have failed for `cluster_state.stale_after`, so that requests pass through whole.
    stale: bool,
}

/// The totals of all workers.
#[derive(Debug, Serialize)]
struct All {
    requests_merged: u64,
    requests_passed_through: u64,
    requests_abandoned: u64,
    passed_through_by_reason: BTreeMap<&'static str, u64>,
    operations: u64,
    operations_unrouted: u64,
    unrouted_by_reason: BTreeMap<&'static str, u64>,
    /// The meanings of these reasons, and of those of observed requests.
    reasons: BTreeMap<&'static str, &'static str>,
    /// What the filter would have done with observed requests.
    observed: Observed,
    #[serde(flatten, serialize_with = "by_name")]
    figures: Vec<(&'static str, u64)>,
}

#[derive(Debug, Serialize)]
struct Observed {
    merged: u64,
    passed_through: u64,
    passed_through_by_reason: BTreeMap<&'static str, u64>,
    operations_unrouted: u64,
    unrouted_by_reason: BTreeMap<&'static str, u64>,
    /// The zone of this Envoy; `None` if it has none.
    zone: Option<String>,
    #[serde(flatten, serialize_with = "by_name")]
    figures: Vec<(&'static str, u64)>,
}

#[derive(Debug, Serialize)]
struct Worker {
    uptime_milliseconds: u64,
    requests: usize,
    memory_bytes: u64,
    memory_peak_bytes: u64,
    memory_limit_bytes: u64,
    vm_memory_bytes: u64,
}

#[derive(Debug, Serialize)]
struct OneNode<'a> {
    id: &'a str,
    name: &'a str,
    /// The zone of the node; `None` if it reports none.
    zone: Option<&'a str>,
    /// The reason why batches do not go to the node's own upstream; `None` if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    without_upstream: Option<&'static str>,
    #[serde(flatten)]
    upstream: OfNode<'a>,
}

/// The upstream that is configured for a node, if there is one.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum OfNode<'a> {
    Some(Upstream<'a>),
    None {
        /// `null`.
        upstream: (),
    },
}

/// The state of an upstream, over all workers.
#[derive(Debug, Serialize)]
struct Upstream<'a> {
    upstream: String,
    /// The node's address in the Envoy cluster that has all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// Where the upstream leads; `None` as long as it was not asked. Only those of nodes with primaries are.
    check: Option<ReportedCheck<'a>>,
    health: ReportedHealth,
    #[serde(flatten, serialize_with = "by_name")]
    figures: Vec<(&'static str, u64)>,
}

/// The outcome of the check of an upstream.
#[derive(Debug, Serialize)]
struct ReportedCheck<'a> {
    result: &'static str,
    text: &'static str,
    /// The name of the node that has answered, if it is not the right one.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<&'a str>,
}

impl<'a> From<&'a UpstreamCheck> for ReportedCheck<'a> {
    fn from(UpstreamCheck { result, found }: &'a UpstreamCheck) -> Self {
        Self { result: result.name(), text: result.text(), found: found.as_deref() }
    }
}

/// The outcome of the last batch from the worker that answers.
#[derive(Debug, Serialize)]
#[serde(tag = "last_batch", rename_all = "snake_case")]
enum ReportedHealth {
    /// The worker has sent no batch.
    None,
    Answered {
        age_milliseconds: u64,
    },
    Failed {
        age_milliseconds: u64,
        failure: String,
    },
}

impl ReportedHealth {
    fn of(health: Option<&Health>, now: Time) -> Self {
        let Some(Health { at, failure }) = health else { return Self::None };
        let age_milliseconds = millis(now.saturating_sub(*at));
        match failure {
            None => Self::Answered { age_milliseconds },
            Some(failure) => Self::Failed { age_milliseconds, failure: failure.to_string() },
        }
    }
}

impl<'a> Status<'a> {
    /// Returns the status.
    pub fn of(view: &'a View<'_>, totals: &Totals) -> Self {
        let View { now, settings, cluster, ids, memory, build, healths, requests, vm_memory, writers, .. } = view;
        let nodes = nodes_by_name(cluster);
        let pipelines = cluster.table().and_then(|table| table.pipelines());
        let upstream = |upstream: UpstreamId| Upstream {
            upstream: cluster.upstreams.name(upstream).to_string(),
            address: cluster.upstreams.address(upstream).map(ToString::to_string),
            check: cluster.check(upstream).map(ReportedCheck::from),
            health: ReportedHealth::of(healths.get(&upstream), *now),
            figures: figures(upstream, totals),
        };
        let limits = &settings.current.limits;
        let (ignored_switches, ignored_switches_left_out) = ignored_switches(settings.problems(), cluster);
        Self {
            pipelines: pipeline_verdicts(pipelines),
            pipelines_left_out: pipelines.map_or(0, |all| all.verdicts().len().saturating_sub(MAX_PIPELINES)),
            build,
            unix_milliseconds: millis(ids.since_epoch().saturating_add(*now)),
            configuration: &settings.current,
            ignored_switches,
            ignored_switches_left_out,
            state: cluster.verified().map(|(version, at)| State {
                version,
                age_milliseconds: millis(now.saturating_sub(at)),
                refresh_milliseconds: millis(settings.current.cluster_state.refresh),
                stale: cluster.is_stale(*now),
            }),
            state_problem: cluster.problem().map(ToString::to_string),
            totals: all(totals, cluster.zone()),
            worker: Worker {
                uptime_milliseconds: millis(*now),
                requests: *requests,
                memory_bytes: memory.used(),
                memory_peak_bytes: memory.peak(),
                memory_limit_bytes: limits.memory,
                vm_memory_bytes: *vm_memory,
            },
            writers: writers.list(),
            other_writers: writers.others(),
            coordinator: upstream(UpstreamId::COORDINATOR),
            nodes_left_out: nodes.len().saturating_sub(MAX_NODES),
            nodes: nodes
                .into_iter()
                .take(MAX_NODES)
                .map(|(node, meant, unrouted)| OneNode {
                    id: &node.id,
                    name: &node.name,
                    zone: settings.current.nodes.zone(node),
                    without_upstream: unrouted.map(Unrouted::name),
                    upstream: meant.map_or(OfNode::None { upstream: () }, |meant| OfNode::Some(upstream(meant))),
                })
                .collect(),
        }
    }
}

/// Returns the ignored settings in the status, given those of the cluster, and the number of further ones.
fn ignored_switches(of_cluster: &[String], cluster: &ClusterView) -> (Vec<String>, usize) {
    let room = MAX_IGNORED.saturating_sub(of_cluster.len());
    let (of_indices, left_out) = cluster.table().map(|table| table.mapping_warnings(room)).unwrap_or_default();
    let listed = of_cluster.iter().take(MAX_IGNORED).cloned().chain(of_indices).collect();
    (listed, left_out.saturating_add(of_cluster.len().saturating_sub(MAX_IGNORED)))
}

/// Returns the upstreams in the status. Those of nodes that have left the cluster are not among them.
pub fn reported_upstreams(cluster: &ClusterView) -> BTreeSet<UpstreamId> {
    let of_nodes = nodes_by_name(cluster).into_iter().take(MAX_NODES).filter_map(|(_, meant, _)| meant);
    [UpstreamId::COORDINATOR].into_iter().chain(of_nodes).collect()
}

fn nodes_by_name(cluster: &ClusterView) -> Vec<(&Node, Option<UpstreamId>, Option<Unrouted>)> {
    let mut nodes: Vec<_> = cluster.table().into_iter().flat_map(|table| table.nodes_as_meant()).collect();
    nodes.sort_unstable_by_key(|(node, ..)| &node.name);
    nodes
}

fn pipeline_verdicts(pipelines: Option<&Pipelines>) -> Vec<PipelineVerdict> {
    let names = |is_harmless: bool| {
        let all = pipelines.into_iter().flat_map(Pipelines::verdicts);
        all.filter(move |(_, verdict)| verdict.is_ok() == is_harmless).map(|(name, _)| name)
    };
    names(false).chain(names(true)).take(MAX_PIPELINES).map(|name| PipelineVerdict::of(name, pipelines)).collect()
}

/// Returns the totals of an upstream.
fn figures(upstream: UpstreamId, totals: &Totals) -> Vec<(&'static str, u64)> {
    let counter = |counter: fn(UpstreamId) -> Counter| totals.counter(counter(upstream));
    let gauge = |gauge: fn(UpstreamId) -> Gauge| totals.gauge(gauge(upstream));
    vec![
        ("held_requests", gauge(Gauge::HeldRequests)),
        ("held_operations", gauge(Gauge::HeldOperations)),
        ("held_bytes", gauge(Gauge::HeldBytes)),
        ("in_flight_batches", gauge(Gauge::InFlightBatches)),
        ("in_flight_operations", gauge(Gauge::InFlightOperations)),
        ("in_flight_bytes", gauge(Gauge::InFlightBytes)),
        ("slots", gauge(Gauge::Slots)),
        ("slots_halved", counter(Counter::SlotsHalved)),
        ("batches", counter(Counter::Batches)),
        ("batch_requests", counter(Counter::BatchRequests)),
        ("batch_operations", counter(Counter::BatchOperations)),
        ("batch_bytes", counter(Counter::BatchBytes)),
        ("hold_microseconds", counter(Counter::HoldMicroseconds)),
        ("upstream_microseconds", counter(Counter::UpstreamMicroseconds)),
        ("batches_redirected", counter(Counter::BatchesRedirected)),
        ("batches_retried_busy", counter(Counter::BatchesRetriedBusy)),
        ("batches_retried_lost", counter(Counter::BatchesRetriedLost)),
        ("batches_separated", counter(Counter::BatchesSeparated)),
        ("answers_mismatched", counter(Counter::AnswersMismatched)),
        ("operations_unknown", counter(Counter::OperationsUnknown)),
        ("observed_batches", counter(Counter::ObservedBatches)),
        ("observed_batch_requests", counter(Counter::ObservedBatchRequests)),
        ("observed_batch_operations", counter(Counter::ObservedBatchOperations)),
        ("observed_batch_bytes", counter(Counter::ObservedBatchBytes)),
    ]
}

fn all(totals: &Totals, zone: Option<&str>) -> All {
    let passed = totals.by_word(PassThrough::all(), Counter::RequestsPassedThrough, PassThrough::name);
    let unrouted = totals.by_word(Unrouted::all(), Counter::OperationsUnrouted, Unrouted::name);
    let observed = observed(totals, zone);
    let named =
        [&passed, &unrouted, &observed.passed_through_by_reason, &observed.unrouted_by_reason].map(BTreeMap::keys);
    let named: BTreeSet<_> = named.into_iter().flatten().copied().collect();
    let texts = PassThrough::all().map(Why::from).map(|why| (why.reason, why.text));
    All {
        reasons: texts.filter(|(reason, _)| named.contains(reason)).collect(),
        observed,
        requests_merged: totals.counter(Counter::RequestsMerged),
        requests_passed_through: passed.values().sum(),
        requests_abandoned: totals.counter(Counter::RequestsAbandoned),
        passed_through_by_reason: passed,
        operations: totals.counter(Counter::Operations),
        operations_unrouted: unrouted.values().sum(),
        unrouted_by_reason: unrouted,
        figures: vec![
            ("state_loads", totals.counter(Counter::StateLoads)),
            ("state_takeovers", totals.counter(Counter::StateTakeovers)),
            ("state_errors", totals.counter(Counter::StateErrors)),
            ("state_busy_microseconds", totals.counter(Counter::StateBusyMicroseconds)),
            ("switches_invalid", totals.counter(Counter::SwitchesInvalid)),
            ("memory_bytes", totals.gauge(Gauge::Memory)),
            ("memory_limit_bytes", totals.gauge(Gauge::MemoryLimit)),
            ("memory_peak_bytes", totals.gauge(Gauge::MemoryPeak)),
            ("vm_memory_peak_bytes", totals.gauge(Gauge::VmMemoryPeak)),
        ],
    }
}

fn observed(totals: &Totals, zone: Option<&str>) -> Observed {
    let passed = totals.by_word(PassThrough::all(), Counter::ObservedPassedThrough, PassThrough::name);
    let unrouted = totals.by_word(Unrouted::all(), Counter::ObservedUnrouted, Unrouted::name);
    Observed {
        merged: totals.counter(Counter::ObservedMerged),
        passed_through: passed.values().sum(),
        passed_through_by_reason: passed,
        operations_unrouted: unrouted.values().sum(),
        unrouted_by_reason: unrouted,
        zone: zone.map(ToOwned::to_owned),
        figures: vec![
            ("bytes_located", totals.counter(Counter::ObservedLocatedBytes)),
            ("bytes_unlocated", totals.counter(Counter::ObservedUnlocatedBytes)),
            ("bytes_between_nodes", totals.counter(Counter::ObservedBytesBetweenNodes)),
            ("bytes_between_zones", totals.counter(Counter::ObservedBytesBetweenZones)),
            ("bytes_to_other_zones", totals.counter(Counter::ObservedBytesToOtherZones)),
        ],
    }
}

/// Writes figures as fields, in this order.
fn by_name<S: Serializer>(figures: &[(&'static str, u64)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(figures.iter().copied())
}

fn millis(time: Time) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
