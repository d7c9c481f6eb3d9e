use std::rc::Rc;

use hashbrown::HashSet;

use crate::Time;
use crate::config::{Config, RuntimeSettings};
use crate::routing::{PollAction, RoutingTable, SharedData, StateCache, UpstreamId, Upstreams};

/// A worker's view of the cluster, and the polls that refresh it.
#[derive(Debug)]
pub struct ClusterView {
    /// The state from which the table is built.
    pub state: StateCache,
    pub upstreams: Upstreams,
    /// The upstreams without a node in the latest table.
    pub gone: HashSet<UpstreamId>,
    /// Whether work on the state is paused until the next wake-up, so that a callback stays short.
    pub is_paused: bool,
    /// Whether there was work on the state since the last [`take_work`](Self::take_work).
    has_worked: bool,
}

impl ClusterView {
    /// Creates a view without a cluster state. `worker` identifies the worker that owns it.
    pub fn new(config: &Config, worker: u64, shared: Box<dyn SharedData>) -> Self {
        Self {
            state: StateCache::new(config, worker, shared),
            upstreams: Upstreams::new(&config.coordinator),
            gone: HashSet::new(),
            is_paused: false,
            has_worked: false,
        }
    }

    /// Returns the table as JSON: see [`Engine::export_state`](super::Engine::export_state).
    pub fn export(&self, pattern: &str, most: usize) -> Option<Vec<u8>> {
        let settings = serde_json::from_slice(self.state.settings()).ok();
        let version = self.state.verified().map(|(version, _)| version);
        serde_json::to_vec(&self.state.table()?.export(pattern, most, version, settings)).ok()
    }

    /// Returns the routing table for a new request: only if the cluster state is not stale.
    pub fn fresh_table(&self, now: Time) -> Option<&Rc<RoutingTable>> {
        self.state.table().filter(|_| !self.state.is_stale(now))
    }

    /// Stops routing to the index of this name until the next poll.
    pub fn distrust(&self, name: &str) {
        self.state.table().into_iter().for_each(|table| table.distrust(name));
    }

    /// Returns when work on the state is due; `None` while it is paused.
    pub fn due(&self) -> Option<Time> {
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

    /// Adopts the newest routing table. If it has changed, returns the upstreams for which it has no node.
    pub fn update_table(&mut self) -> Option<Vec<UpstreamId>> {
        let table = self.state.new_table(&mut self.upstreams)?;
        self.has_worked = true;
        Some(self.upstreams.ids().filter(|upstream| !table.has_node(*upstream)).collect())
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
