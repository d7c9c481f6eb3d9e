use std::rc::Rc;

use hashbrown::HashSet;

use crate::Time;
use crate::config::{Config, RuntimeSettings};
use crate::routing::{PollAction, PollEvent, RoutingTable, SharedData, StateCache, UpstreamId, Upstreams};

/// A worker's view of the cluster, and the polls that refresh it.
#[derive(Debug)]
pub struct ClusterView {
    /// The state from which the table is built.
    pub state: StateCache,
    pub upstreams: Upstreams,
    table: Option<Rc<RoutingTable>>,
    /// Upstreams without a node in the table.
    gone: HashSet<UpstreamId>,
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
            upstreams: Upstreams::new(&config.coordinator),
            table: None,
            gone: HashSet::new(),
            is_paused: false,
            has_worked: false,
        }
    }

    /// Returns the routing table, once the cluster state is known.
    pub fn table(&self) -> Option<&Rc<RoutingTable>> {
        self.table.as_ref()
    }

    /// Returns the routing table for a new request: only if the cluster state is not stale.
    pub fn fresh_table(&self, now: Time) -> Option<&Rc<RoutingTable>> {
        self.table().filter(|_| !self.state.is_stale(now))
    }

    /// Returns whether the latest table has no node for an upstream.
    pub fn is_gone(&self, upstream: UpstreamId) -> bool {
        self.gone.contains(&upstream)
    }

    /// Replaces the set of upstreams without a node.
    pub fn set_gone(&mut self, gone: impl IntoIterator<Item = UpstreamId>) {
        self.gone = gone.into_iter().collect();
    }

    /// Returns when work on the state is due; `None` while it is paused.
    pub fn due(&self) -> Option<Time> {
        self.state.due().filter(|_| !self.is_paused)
    }

    /// Returns whether work on the state is paused until a wake-up.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Resumes work on the state after a wake-up.
    pub fn woken(&mut self) {
        self.is_paused = false;
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
    pub fn update_table(&mut self) -> Option<Vec<UpstreamId>> {
        let table = self.state.new_table(&mut self.upstreams)?;
        self.has_worked = true;
        let gone = self.upstreams.ids().filter(|upstream| !table.has_node(*upstream)).collect();
        self.table = Some(table);
        Some(gone)
    }

    /// Returns the cluster's run-time settings, and the problems with them, if they have changed.
    pub fn new_settings(&mut self) -> Option<(RuntimeSettings, Vec<String>)> {
        // The settings were parsed as a JSON object before, so reading them does not fail.
        self.state.new_settings().map(RuntimeSettings::read)?.ok()
    }

    /// Returns whether there was work on the state since the last call, so that the shell can measure how long that
    /// takes.
    pub fn take_work(&mut self) -> bool {
        std::mem::take(&mut self.has_worked)
    }
}
