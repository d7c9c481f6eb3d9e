use std::rc::Rc;

use hashbrown::HashSet;

use crate::Time;
use crate::config::{Config, Switches};
use crate::routing::{PollAction, PollEvent, RoutingTable, SharedData, StateCache, UpstreamId, Upstreams};

/// What a worker knows of the cluster, and the polls that keep it fresh.
#[derive(Debug)]
pub struct ClusterView {
    /// The state that the table is made of.
    pub state: StateCache,
    pub upstreams: Upstreams,
    table: Option<Rc<RoutingTable>>,
    /// Upstreams of which no node is left in the table.
    gone: HashSet<UpstreamId>,
    /// Whether work on the state waits for the next wake-up, so that a callback stays short.
    is_paused: bool,
    /// Whether there was work on the state since [`take_work`](Self::take_work).
    has_worked: bool,
}

impl ClusterView {
    /// A view that knows no cluster state yet. `worker` tells the worker that has it from all others.
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

    /// The routing table, once the cluster's state is known.
    pub fn table(&self) -> Option<&Rc<RoutingTable>> {
        self.table.as_ref()
    }

    /// Whether the last table has no node of an upstream that had one.
    pub fn is_gone(&self, upstream: UpstreamId) -> bool {
        self.gone.contains(&upstream)
    }

    /// Makes these the upstreams of which no node is left.
    pub fn set_gone(&mut self, gone: impl IntoIterator<Item = UpstreamId>) {
        self.gone = gone.into_iter().collect();
    }

    /// When there is work on the state; while it waits for a wake-up, never.
    pub fn due(&self) -> Option<Time> {
        self.state.due().filter(|_| !self.is_paused)
    }

    /// Whether work on the state waits for a wake-up.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Notes that a wake-up has come.
    pub fn woken(&mut self) {
        self.is_paused = false;
    }

    /// Does the next piece of work; returns the path of a query if the cluster has to be asked.
    pub fn next_query(&mut self, now: Time) -> Option<String> {
        if self.is_paused {
            return None;
        }
        let errand = self.state.next(now)?;
        self.has_worked = true;
        match errand {
            PollAction::Ask(question) => Some(question.path()),
            PollAction::Pause => {
                self.is_paused = true;
                None
            }
        }
    }

    /// Takes in the cluster's answer to the query.
    pub fn answered(&mut self, status: u16, body: Vec<u8>, now: Time) {
        self.has_worked = true;
        self.state.answered(status, body, now);
    }

    /// Returns what has happened since the last time, the oldest first.
    pub fn next_event(&mut self) -> Option<PollEvent> {
        self.state.next_event()
    }

    /// Takes over the newest routing table. Returns the upstreams of which it has no node, if it is another one.
    pub fn update_table(&mut self) -> Option<Vec<UpstreamId>> {
        let table = self.state.new_table(&mut self.upstreams)?;
        self.has_worked = true;
        let gone = self.upstreams.ids().filter(|upstream| !table.has_node(*upstream)).collect();
        self.table = Some(table);
        Some(gone)
    }

    /// Returns the cluster's run-time settings, and what is wrong with them, if they have changed.
    pub fn new_settings(&mut self) -> Option<(Switches, Vec<String>)> {
        // They were read as an object before.
        self.state.new_settings().map(Switches::read)?.ok()
    }

    /// Returns whether there was work on the state since the last call, so that the shell can measure how long it takes.
    pub fn take_work(&mut self) -> bool {
        std::mem::take(&mut self.has_worked)
    }
}
