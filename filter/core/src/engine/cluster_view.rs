use std::rc::Rc;

use hashbrown::HashSet;

use crate::Time;
use crate::config::{Compress, Config, NodeUpstreams, RuntimeSettings};
use crate::routing::{
    PollAction, PollEvent, RefreshError, RoutingTable, SharedData, Silence, StateCache, UpstreamCheck, UpstreamId,
    Upstreams, Version,
};

/// A worker's view of the cluster, and the polls that refresh it.
#[derive(Debug)]
pub struct ClusterView {
    /// The state from which the table is built.
    state: StateCache,
    pub upstreams: Upstreams,
    /// The upstreams without a node in the latest table.
    gone: HashSet<UpstreamId>,
    /// The zone of this Envoy, if it has one.
    zone: Option<String>,
    /// The upstreams that lead to another zone.
    in_other_zones: HashSet<UpstreamId>,
    /// Whether work on the state is paused until the next wake-up, so that a callback stays short.
    is_paused: bool,
    /// Whether there was work on the state since the last [`take_work`](Self::take_work).
    has_worked: bool,
}

impl ClusterView {
    /// Creates a view without a cluster state. `worker` identifies the worker that owns it.
    pub fn new(config: &Config, worker: u64, shared: Box<dyn SharedData>) -> Self {
        Self {
            state: StateCache::new(config, worker, shared),
            upstreams: Upstreams::of(config),
            gone: HashSet::new(),
            zone: None,
            in_other_zones: HashSet::new(),
            is_paused: false,
            has_worked: false,
        }
    }

    /// Returns the routing table, once the cluster state is known.
    pub fn table(&self) -> Option<&Rc<RoutingTable>> {
        self.state.table()
    }

    /// Returns the routing table as JSON, for [`Snapshot`](crate::routing::Snapshot): the first `most` indices that match
    /// a pattern, with all names that lead to them. Returns `None` until the cluster state is known.
    pub fn export(&self, pattern: &str, most: usize) -> Option<Vec<u8>> {
        let settings = serde_json::from_slice(self.state.settings()).ok();
        let version = self.state.verified().map(|(version, _)| version);
        serde_json::to_vec(&self.table()?.export(pattern, most, version, settings)).ok()
    }

    /// Returns the routing table for a new request: only if the cluster state is not stale.
    pub fn fresh_table(&self, now: Time) -> Option<&Rc<RoutingTable>> {
        self.table().filter(|_| !self.state.is_stale(now))
    }

    /// Starts polling, unless it has started.
    pub fn wake(&mut self, now: Time) {
        self.state.wake(now);
    }

    /// Notes that a bulk request has arrived.
    pub fn serve(&mut self, now: Time) {
        self.state.serve(now);
    }

    /// Returns whether a bulk request has arrived.
    pub fn serves(&self) -> bool {
        self.state.serves()
    }

    /// Polls the cluster soon, because something shows that the table may be out of date. The rate of such polls is
    /// limited.
    pub fn poll_soon(&mut self, now: Time) {
        self.state.poll_soon(now);
    }

    /// Looks up a name that an operation used, which the table does not know.
    pub fn want(&mut self, name: &str) {
        self.state.want(name);
    }

    /// Looks up the pipelines, because an operation named one.
    pub fn want_pipelines(&mut self, now: Time) {
        self.state.want_pipelines(now);
    }

    /// Looks up the addresses of the nodes, because a request is observed.
    pub fn want_addresses(&mut self, now: Time) {
        self.state.want_addresses(now);
    }

    /// Records that Envoy does not have this upstream. It is tried again after the next cycle.
    pub fn miss(&mut self, upstream: UpstreamId) {
        self.state.miss(upstream);
    }

    /// Records that a connection to this upstream took too long. It is tried again after a while.
    pub fn avoid(&mut self, upstream: UpstreamId, now: Time) {
        self.state.avoid(upstream, now);
    }

    /// Records that the last query got no readable answer.
    pub fn failed(&mut self, silence: Silence, now: Time) {
        self.state.failed(silence, now);
    }

    /// Returns whether an upstream can be asked now.
    #[inline]
    pub fn has_check(&self) -> bool {
        self.state.has_check()
    }

    /// Returns the next upstream to ask for the node to which it leads.
    pub fn next_check(&mut self) -> Option<UpstreamId> {
        self.state.next_check()
    }

    /// Handles an upstream's answer to this question, or the failure to get one.
    pub fn checked(&mut self, upstream: UpstreamId, answer: Result<(u16, &[u8]), Silence>, now: Time) {
        match answer {
            Ok((status, body)) => self.state.checked(upstream, status, body, now),
            Err(silence) => self.state.check_failed(upstream, silence, now),
        }
    }

    /// Returns the last outcome of the check of an upstream.
    pub fn check(&self, upstream: UpstreamId) -> Option<&UpstreamCheck> {
        self.state.check(upstream)
    }

    /// Returns whether an upstream does not lead where it should.
    #[inline]
    pub fn has_faults(&self) -> bool {
        self.state.has_faults()
    }

    /// Returns the upstreams that do not lead where they should.
    pub fn faulty_upstreams(&self) -> impl Iterator<Item = UpstreamId> {
        self.state.faulty_upstreams()
    }

    /// Returns the last failure of a poll, if none has succeeded since.
    pub fn problem(&self) -> Option<&RefreshError> {
        self.state.problem()
    }

    /// Returns the version of the known state, and when it was last known to be the newest.
    pub fn verified(&self) -> Option<(&Version, Time)> {
        self.state.verified()
    }

    /// Returns whether polls have failed for `cluster_state.stale_after`.
    pub fn is_stale(&self, now: Time) -> bool {
        self.state.is_stale(now)
    }

    /// Stops routing to the index of this name until the next poll.
    pub fn distrust(&self, name: &str) {
        self.table().into_iter().for_each(|table| table.distrust(name));
    }

    /// Returns whether the latest table has no node for an upstream.
    pub fn is_gone(&self, upstream: UpstreamId) -> bool {
        self.gone.contains(&upstream)
    }

    /// Replaces the set of upstreams without a node.
    pub fn set_gone(&mut self, gone: impl IntoIterator<Item = UpstreamId>) {
        self.gone = gone.into_iter().collect();
    }

    /// Sets the zone of this Envoy.
    pub fn set_zone(&mut self, zone: String, nodes: &NodeUpstreams) {
        self.zone = Some(zone);
        self.compare_zones(nodes);
    }

    /// Returns the zone of this Envoy, if it has one.
    pub fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// Returns whether batches for an upstream are compressed.
    #[inline]
    pub fn compresses(&self, compress: Compress, upstream: UpstreamId) -> bool {
        match compress {
            Compress::Always => true,
            Compress::Never => false,
            Compress::OtherZones => self.in_other_zones.contains(&upstream),
        }
    }

    /// Returns whether batches for any upstream may be compressed, now or with a later table.
    pub fn may_compress(&self, compress: Compress) -> bool {
        match compress {
            Compress::Always => true,
            Compress::Never => false,
            Compress::OtherZones => self.zone.is_some(),
        }
    }

    /// Returns whether work on the state is paused until the next wake-up.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Goes on with the work on the state.
    pub fn resume(&mut self) {
        self.is_paused = false;
    }

    /// Returns when work on the state is due; `None` while it is paused.
    pub fn due(&self) -> Option<Time> {
        if self.has_check() {
            return Some(Time::ZERO);
        }
        self.state.due().filter(|_| !self.is_paused)
    }

    /// Does the next piece of work. Returns the path of a query if one has to be sent to the cluster.
    pub fn next_query(&mut self, now: Time) -> Option<String> {
        if self.is_paused {
            return None;
        }
        let action = self.state.next(now)?;
        self.has_worked = true;
        match action {
            PollAction::Ask(query) => Some(query.path()),
            PollAction::Pause => {
                self.is_paused = true;
                None
            }
        }
    }

    /// Handles the cluster's answer to the query.
    pub fn answered(&mut self, status: u16, body: Vec<u8>, now: Time) {
        self.has_worked = true;
        self.state.answered(status, body, now);
    }

    /// Returns the oldest event that was not returned yet.
    pub fn next_event(&mut self) -> Option<PollEvent> {
        self.state.next_event()
    }

    /// Adopts the newest routing table. If it has changed, returns the upstreams for which it has no node.
    pub fn update_table(&mut self, nodes: &NodeUpstreams) -> Option<Vec<UpstreamId>> {
        let table = self.state.new_table(&mut self.upstreams)?;
        self.has_worked = true;
        let gone = self.upstreams.ids().filter(|upstream| !table.has_node(*upstream)).collect();
        self.compare_zones(nodes);
        Some(gone)
    }

    /// Finds the upstreams that lead to another zone. An unknown zone does not count.
    fn compare_zones(&mut self, nodes: &NodeUpstreams) {
        let is_other = |node| self.zone().zip(nodes.zone(node)).is_some_and(|(own, zone)| own != zone);
        let of_nodes = self.table().into_iter().flat_map(|table| table.nodes());
        let others = of_nodes.filter(|(node, _)| is_other(node)).filter_map(|(_, upstream)| upstream.ok());
        self.in_other_zones = others.collect();
    }

    /// Returns the cluster's run-time settings, and the problems with them, if they have changed, and whether another
    /// worker has reported the problems.
    pub fn new_settings(&mut self) -> Option<(RuntimeSettings, Vec<String>, bool)> {
        let (settings, are_taken_over) = self.state.new_settings()?;
        // The settings were parsed as a JSON object before, so reading them does not fail.
        let (settings, invalid) = RuntimeSettings::read(settings).ok()?;
        Some((settings, invalid, are_taken_over))
    }

    /// Returns whether there was work on the state since the last call, so that the shell can measure how long that
    /// takes.
    pub fn take_work(&mut self) -> bool {
        std::mem::take(&mut self.has_worked)
    }
}
