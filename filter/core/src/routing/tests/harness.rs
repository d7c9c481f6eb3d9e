use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use super::super::{
    PollAction, PollEvent, RefreshError, Route, RoutingTable, SharedData, Silence, StateCache, StateQuery, Unshared,
    Upstreams, hash,
};
use super::cluster::Cluster;
use super::memory::Memory;
use crate::Time;
use crate::config::Config;

/// The workers of a machine, their shared data, the cluster, and the clock.
pub struct Harness {
    pub cluster: Rc<RefCell<Cluster>>,
    pub memory: Memory,
    pub workers: Vec<Rc<RefCell<Worker>>>,
    pub now: Time,
}

/// One worker and the queries that it sent.
pub struct Worker {
    pub cache: StateCache,
    pub asked: Vec<StateQuery>,
    /// The query that it is waiting for.
    pub waits: Option<StateQuery>,
    pub events: Vec<PollEvent>,
    pub pauses: usize,
    pub upstreams: Upstreams,
    pub table: Option<Rc<RoutingTable>>,
    /// Whether its queries are answered.
    pub is_alive: bool,
    /// The upstreams that it has asked which node they lead to.
    pub checked: Vec<String>,
}

/// The outcome of a query.
pub enum QueryOutcome {
    Answered,
    With(u16, Vec<u8>),
    Unanswered,
    NotSent,
}

pub const SECOND: Time = Time::from_secs(1);

pub const INTERVAL: Time = Time::from_secs(5);

/// Longer than the time after which an unchanged lease is free.
pub const PATIENCE: Time = Time::from_secs(10);

pub const CONFIG: &str = r#"{"coordinator":"es","nodes":{"upstream":"up-{name}"}}"#;

impl Harness {
    /// Creates `workers` awake workers, and a cluster with two indices, i and j.
    pub fn new(workers: usize) -> Self {
        let mut harness = Self {
            cluster: Rc::new(RefCell::new(Cluster::new())),
            memory: Memory::default(),
            workers: Vec::new(),
            now: Time::from_secs(100),
        };
        harness.cluster.borrow_mut().create("i", &["n0", "n1", "n2"]);
        harness.cluster.borrow_mut().create("j", &["n1"]);
        (0..workers).for_each(|_| {
            harness.join(CONFIG);
        });
        harness
    }

    /// Does the same, and lets all workers learn the cluster.
    pub fn settled(workers: usize) -> Self {
        let mut harness = Self::new(workers);
        harness.run_for(INTERVAL);
        harness.check();
        harness.forget();
        harness
    }

    /// Adds a worker with this configuration.
    pub fn join(&mut self, config: &str) -> usize {
        let shared = self.memory.clone();
        self.join_with(config, Box::new(shared))
    }

    /// Adds a worker that shares nothing.
    pub fn join_alone(&mut self) -> usize {
        self.join_with(CONFIG, Box::new(Unshared))
    }

    fn join_with(&mut self, config: &str, shared: Box<dyn SharedData>) -> usize {
        let number = self.workers.len();
        let config = Config::read(config.as_bytes()).unwrap();
        let mut cache = StateCache::new(&config, number as u64 + 1, shared);
        cache.serve(self.now);
        self.workers.push(Rc::new(RefCell::new(Worker {
            cache,
            asked: Vec::new(),
            waits: None,
            events: Vec::new(),
            pauses: 0,
            upstreams: Upstreams::of(&config),
            table: None,
            is_alive: true,
            checked: Vec::new(),
        })));
        number
    }

    /// Clears the record of queries.
    pub fn forget(&self) {
        for worker in &self.workers {
            let mut worker = worker.borrow_mut();
            worker.asked.clear();
            worker.checked.clear();
            worker.events.clear();
            worker.pauses = 0;
        }
    }

    /// Advances the time. All due actions of the workers take place.
    pub fn run_for(&mut self, time: Time) {
        self.run_with(time, |_, _| QueryOutcome::Answered);
    }

    /// Does the same. Every live worker then knows the cluster.
    pub fn follow_for(&mut self, time: Time) {
        self.run_for(time);
        self.check();
    }

    /// Changes the cluster. Every live worker knows the change after an interval.
    pub fn follow<R>(&mut self, change: impl FnOnce(&mut Cluster) -> R) {
        change(&mut self.cluster());
        self.follow_for(INTERVAL);
    }

    /// Advances the time, with this outcome for each query of a kind.
    pub fn run_failing(&mut self, time: Time, kind: &str, mut outcome: impl FnMut() -> QueryOutcome) {
        self.run_with(time, |_, query| if query.to_string() == kind { outcome() } else { QueryOutcome::Answered });
    }

    /// Does the same, with an outcome for each query of each worker.
    pub fn run_with(&mut self, time: Time, mut outcome: impl FnMut(usize, &StateQuery) -> QueryOutcome) {
        let end = self.now + time;
        loop {
            for (number, worker) in self.workers.iter().enumerate() {
                let mut worker = worker.borrow_mut();
                if worker.is_alive {
                    worker.run(self.now, &self.cluster, |query| outcome(number, query));
                }
            }
            let dues = self.workers.iter().map(|worker| worker.borrow());
            let due = dues.filter(|worker| worker.is_alive).filter_map(|worker| worker.cache.due()).min();
            match due.filter(|due| *due <= end) {
                Some(due) => {
                    assert!(due > self.now, "an action stays due");
                    self.now = due;
                }
                None => break,
            }
        }
        self.now = end;
    }

    /// Runs a worker until it sends such a query, and leaves the query unanswered.
    pub fn stop_at(&self, worker: usize, kind: &str) {
        for _ in 0..1000 {
            let query = {
                let mut worker = self.workers[worker].borrow_mut();
                assert!(worker.step(self.now), "it has no action");
                worker.waits.take()
            };
            match query {
                Some(query) if query.to_string() == kind => return,
                Some(_) => self.answer(worker),
                None => {}
            }
        }
        panic!("it never queries {kind}");
    }

    /// Gives a worker the cluster's answer to its last query.
    pub fn answer(&self, worker: usize) {
        let mut worker = self.workers[worker].borrow_mut();
        let query = worker.asked.last().expect("it has not sent a query");
        let body = self.cluster.borrow().answer(&query.path()).to_string();
        worker.cache.answered(200, body.into_bytes(), self.now);
    }

    /// Lets one worker perform its due actions. Its queries are answered.
    pub fn run_one(&self, worker: usize) {
        self.worker(worker).run(self.now, &self.cluster, |_| QueryOutcome::Answered);
    }

    pub fn worker(&self, number: usize) -> RefMut<'_, Worker> {
        self.workers[number].borrow_mut()
    }

    pub fn cluster(&self) -> RefMut<'_, Cluster> {
        self.cluster.borrow_mut()
    }

    /// Lets a worker act until nothing is due. Its queries are answered. Runs `check` after each step.
    pub fn step_through(&self, worker: usize, check: impl Fn(&Self)) {
        while self.worker(worker).step(self.now) {
            check(self);
            if self.worker(worker).waits.take().is_some() {
                self.answer(worker);
            }
        }
    }

    /// Gives a worker a reason to poll soon.
    pub fn poll_soon(&self, worker: usize) {
        self.worker(worker).cache.poll_soon(self.now);
    }

    /// Tells a worker that Envoy does not have this upstream.
    pub fn miss(&self, worker: usize, upstream: &str) {
        let mut worker = self.worker(worker);
        let upstream = worker.upstreams.intern(upstream).unwrap();
        worker.cache.miss(upstream);
    }

    /// Returns all queries of all workers.
    pub fn asked(&self) -> Vec<StateQuery> {
        self.workers.iter().flat_map(|worker| worker.borrow().asked.clone()).collect()
    }

    /// Returns how many such queries all workers have sent.
    pub fn count(&self, kind: &str) -> usize {
        self.asked().iter().filter(|query| query.to_string() == kind).count()
    }

    /// Returns the names whose details were queried.
    pub fn details(&self) -> Vec<String> {
        let names = self.asked().into_iter().filter_map(|query| match query {
            StateQuery::Details(names) => Some(names),
            _ => None,
        });
        let mut names: Vec<String> = names.flatten().collect();
        names.sort();
        names
    }

    /// Returns where a worker sends a document.
    pub fn route(&self, worker: usize, name: &str, id: &str) -> Option<String> {
        let worker = self.workers[worker].borrow();
        let upstream = match worker.table.as_ref()?.route(name, Some(hash(id)), None) {
            Ok(Route::Primary { upstream, .. }) => upstream,
            Ok(Route::AnyNode) => panic!("it has an id"),
            Err(_) => return None,
        };
        Some(worker.upstreams.name(upstream).to_string())
    }

    /// Checks that every live worker knows the current target of each name that can be written to, and no other names.
    pub fn check(&self) {
        for worker in (0..self.workers.len()).filter(|worker| self.workers[*worker].borrow().is_alive) {
            self.check_one(worker, false);
        }
    }

    /// Checks that a worker sends nothing to a wrong destination, and unless `may_lack` that it routes everything.
    pub fn check_one(&self, worker: usize, may_lack: bool) {
        let cluster = self.cluster.borrow();
        let names = cluster.names();
        for gone in ["gone", "x", "k", "logs"] {
            assert!(names.contains_key(gone) || self.route(worker, gone, "1").is_none(), "{gone} is still routed");
        }
        for (name, (index, routing)) in names {
            for id in 0..20 {
                let id = id.to_string();
                let owner = cluster.owner(&index, &id, routing.as_deref()).map(|node| format!("up-{node}"));
                let found = self.route(worker, &name, &id);
                assert!(
                    found == owner || may_lack && found.is_none(),
                    "worker {worker} sends {name}/{id} to {found:?}, not {owner:?}"
                );
            }
        }
    }
}

impl Worker {
    /// Performs all due actions.
    pub fn run(&mut self, now: Time, cluster: &RefCell<Cluster>, mut outcome: impl FnMut(&StateQuery) -> QueryOutcome) {
        for _ in 0..5_000 {
            self.step(now);
            self.check_upstreams(now, cluster);
            if let Some(query) = self.waits.take() {
                match outcome(&query) {
                    QueryOutcome::Answered => {
                        let body = cluster.borrow().answer(&query.path()).to_string();
                        self.cache.answered(200, body.into_bytes(), now);
                    }
                    QueryOutcome::With(status, body) => self.cache.answered(status, body, now),
                    QueryOutcome::Unanswered => self.cache.failed(Silence::NoAnswer, now),
                    QueryOutcome::NotSent => self.cache.failed(Silence::NoUpstream, now),
                }
                self.follow();
            } else if self.cache.due().is_none_or(|due| due > now) {
                return;
            }
        }
        panic!("it does not end");
    }

    /// Asks the upstreams that are to be asked. The cluster knows where each leads.
    fn check_upstreams(&mut self, now: Time, cluster: &RefCell<Cluster>) {
        while let Some(upstream) = self.cache.next_check() {
            let name = self.upstreams.name(upstream).to_string();
            match cluster.borrow().local(&name) {
                Ok(answer) => self.cache.checked(upstream, 200, answer.to_string().as_bytes(), now),
                Err(silence) => self.cache.check_failed(upstream, silence, now),
            }
            self.checked.push(name);
        }
        self.follow();
    }

    /// Performs one step. Returns whether there was an action.
    pub fn step(&mut self, now: Time) -> bool {
        let action = self.cache.next(now);
        self.follow();
        match &action {
            Some(PollAction::Pause) => self.pauses += 1,
            Some(PollAction::Ask(query)) => {
                assert!(query.path().len() < 4000, "the path is too long for a cluster");
                self.asked.push(query.clone());
                self.waits = Some(query.clone());
            }
            None => {}
        }
        action.is_some()
    }

    fn follow(&mut self) {
        while let Some(events) = self.cache.next_event() {
            self.events.push(events);
        }
        if let Some(table) = self.cache.new_table(&mut self.upstreams) {
            self.table = Some(table);
        }
    }

    /// Returns the errors that occurred.
    pub fn errors(&self) -> Vec<RefreshError> {
        let error = |events: &PollEvent| match events {
            PollEvent::Failed(error) => Some(error.clone()),
            _ => None,
        };
        self.events.iter().filter_map(error).collect()
    }
}
