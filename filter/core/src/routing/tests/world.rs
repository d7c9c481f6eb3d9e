use std::cell::RefCell;
use std::rc::Rc;

use super::super::{
    PollAction, PollEvent, RefreshError, Route, RoutingTable, SharedData, StateCache, StateQuery, Unshared, Upstreams,
    hash,
};
use super::cluster::Cluster;
use super::memory::Memory;
use crate::Time;
use crate::config::Config;

/// The workers of a machine, what they share, the cluster, and the clock.
pub struct World {
    pub cluster: Rc<RefCell<Cluster>>,
    pub memory: Memory,
    pub workers: Vec<Rc<RefCell<Worker>>>,
    pub now: Time,
}

/// One worker and what it asked.
pub struct Worker {
    pub cache: StateCache,
    pub asked: Vec<StateQuery>,
    /// What it waits for.
    pub waits: Option<StateQuery>,
    pub events: Vec<PollEvent>,
    pub pauses: usize,
    pub upstreams: Upstreams,
    pub table: Option<Rc<RoutingTable>>,
    /// Whether its queries are answered.
    pub is_alive: bool,
}

/// What becomes of a query.
pub enum Fate {
    Answered,
    With(u16, Vec<u8>),
    Unanswered,
    NotSent,
}

pub const INTERVAL: Time = Time::from_secs(5);

/// More than after which a lease that does not change is nobody's.
pub const PATIENCE: Time = Time::from_secs(10);

pub const CONFIG: &str = r#"{"coordinator":"es","nodes":{"upstream":"up-{name}"}}"#;

impl World {
    /// So many workers, all awake, in front of a cluster with two indices, i and j.
    pub fn new(workers: usize) -> Self {
        let mut world = Self {
            cluster: Rc::new(RefCell::new(Cluster::new())),
            memory: Memory::default(),
            workers: Vec::new(),
            now: Time::from_secs(100),
        };
        world.cluster.borrow_mut().create("i", &["n0", "n1", "n2"]);
        world.cluster.borrow_mut().create("j", &["n1"]);
        (0..workers).for_each(|_| {
            world.join(CONFIG);
        });
        world
    }

    /// The same, and all of them know the cluster.
    pub fn settled(workers: usize) -> Self {
        let mut world = Self::new(workers);
        world.run_for(INTERVAL);
        world.check();
        world.forget();
        world
    }

    /// One more worker, with this configuration.
    pub fn join(&mut self, config: &str) -> usize {
        let shared = self.memory.clone();
        self.join_with(config, Box::new(shared))
    }

    /// One more worker that shares nothing.
    pub fn join_alone(&mut self) -> usize {
        self.join_with(CONFIG, Box::new(Unshared))
    }

    fn join_with(&mut self, config: &str, shared: Box<dyn SharedData>) -> usize {
        let number = self.workers.len();
        let config = Config::read(config.as_bytes()).unwrap();
        let mut cache = StateCache::new(&config, number as u64 + 1, shared);
        cache.wake(self.now);
        self.workers.push(Rc::new(RefCell::new(Worker {
            cache,
            asked: Vec::new(),
            waits: None,
            events: Vec::new(),
            pauses: 0,
            upstreams: Upstreams::new("es"),
            table: None,
            is_alive: true,
        })));
        number
    }

    /// Nothing was asked yet.
    pub fn forget(&self) {
        for worker in &self.workers {
            let mut worker = worker.borrow_mut();
            worker.asked.clear();
            worker.events.clear();
            worker.pauses = 0;
        }
    }

    /// Lets this time pass. Whatever a worker is due to do is done with that.
    pub fn run_for(&mut self, time: Time) {
        self.run_with(time, |_, _| Fate::Answered);
    }

    /// The same, with a fate for each query of each worker.
    pub fn run_with(&mut self, time: Time, mut fate: impl FnMut(usize, &StateQuery) -> Fate) {
        let end = self.now + time;
        loop {
            for (number, worker) in self.workers.iter().enumerate() {
                let mut worker = worker.borrow_mut();
                if worker.is_alive {
                    worker.run(self.now, &self.cluster, |query| fate(number, query));
                }
            }
            let dues = self.workers.iter().map(|worker| worker.borrow());
            let due = dues.filter(|worker| worker.is_alive).filter_map(|worker| worker.cache.due()).min();
            match due.filter(|due| *due <= end) {
                Some(due) => {
                    assert!(due > self.now, "something stays due");
                    self.now = due;
                }
                None => break,
            }
        }
        self.now = end;
    }

    /// Lets a worker go on until it asks such a query, and not get an answer.
    pub fn stop_at(&self, worker: usize, kind: &str) {
        for _ in 0..1000 {
            let query = {
                let mut worker = self.workers[worker].borrow_mut();
                assert!(worker.step(self.now), "it does nothing");
                worker.waits.take()
            };
            match query {
                Some(query) if query.to_string() == kind => return,
                Some(_) => self.answer(worker),
                None => {}
            }
        }
        panic!("it never asks for {kind}");
    }

    /// Gives a worker the cluster's answer to what it asked last.
    pub fn answer(&self, worker: usize) {
        let mut worker = self.workers[worker].borrow_mut();
        let query = worker.asked.last().expect("it has asked nothing");
        let body = self.cluster.borrow().answer(&query.path()).to_string();
        worker.cache.answered(200, body.into_bytes(), self.now);
    }

    /// All queries of all workers that were asked.
    pub fn asked(&self) -> Vec<StateQuery> {
        self.workers.iter().flat_map(|worker| worker.borrow().asked.clone()).collect()
    }

    /// How many times all workers asked such a query.
    pub fn count(&self, kind: &str) -> usize {
        self.asked().iter().filter(|query| query.to_string() == kind).count()
    }

    /// The names of which details were asked for.
    pub fn details(&self) -> Vec<String> {
        let names = self.asked().into_iter().filter_map(|query| match query {
            StateQuery::Details(names) => Some(names),
            _ => None,
        });
        let mut names: Vec<String> = names.flatten().collect();
        names.sort();
        names
    }

    /// Where a worker sends a document.
    pub fn route(&self, worker: usize, name: &str, id: &str) -> Option<String> {
        let worker = self.workers[worker].borrow();
        let upstream = match worker.table.as_ref()?.route(name, Some(hash(id)), None) {
            Ok(Route::Primary { upstream, .. }) => upstream,
            Ok(Route::AnyNode) => panic!("it has an id"),
            Err(_) => return None,
        };
        Some(worker.upstreams.name(upstream).to_string())
    }

    /// All workers that are alive know each name that can be written to as it is now, and none but those.
    pub fn check(&self) {
        for worker in (0..self.workers.len()).filter(|worker| self.workers[*worker].borrow().is_alive) {
            self.check_one(worker, false);
        }
    }

    /// A worker sends nothing elsewhere than where it belongs; unless `may_lack` it sends everything there.
    pub fn check_one(&self, worker: usize, may_lack: bool) {
        let cluster = self.cluster.borrow();
        let names = cluster.names();
        for gone in ["gone", "x", "k", "logs"] {
            assert!(names.contains_key(gone) || self.route(worker, gone, "1").is_none(), "{gone} is routed still");
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
    /// Does all that is due.
    pub fn run(&mut self, now: Time, cluster: &RefCell<Cluster>, mut fate: impl FnMut(&StateQuery) -> Fate) {
        for _ in 0..5_000 {
            self.step(now);
            if let Some(query) = self.waits.take() {
                match fate(&query) {
                    Fate::Answered => {
                        let body = cluster.borrow().answer(&query.path()).to_string();
                        self.cache.answered(200, body.into_bytes(), now);
                    }
                    Fate::With(status, body) => self.cache.answered(status, body, now),
                    Fate::Unanswered => self.cache.failed(true, now),
                    Fate::NotSent => self.cache.failed(false, now),
                }
                self.follow();
            } else if self.cache.due().is_none_or(|due| due > now) {
                return;
            }
        }
        panic!("it comes to no end");
    }

    /// One step; says whether there was anything to do.
    pub fn step(&mut self, now: Time) -> bool {
        let errand = self.cache.next(now);
        self.follow();
        match &errand {
            Some(PollAction::Pause) => self.pauses += 1,
            Some(PollAction::Ask(query)) => {
                assert!(query.path().len() < 4000, "a cluster takes no such path");
                self.asked.push(query.clone());
                self.waits = Some(query.clone());
            }
            None => {}
        }
        errand.is_some()
    }

    fn follow(&mut self) {
        while let Some(events) = self.cache.next_event() {
            self.events.push(events);
        }
        if let Some(table) = self.cache.new_table(&mut self.upstreams) {
            self.table = Some(table);
        }
    }

    /// What went wrong.
    pub fn errors(&self) -> Vec<RefreshError> {
        let error = |events: &PollEvent| match events {
            PollEvent::Failed(error) => Some(error.clone()),
            _ => None,
        };
        self.events.iter().filter_map(error).collect()
    }
}
