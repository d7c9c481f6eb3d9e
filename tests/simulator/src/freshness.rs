//! Checks whether the engines know the cluster's layout, and how many queries that takes.

use bulk_reshuffle::bulk::Action;
use bulk_reshuffle::config::Config;
use bulk_reshuffle::routing::{PollAction, Route, StateCache, hash};

use crate::harness::{Harness, Machine};
use crate::layout::{COORDINATOR, NAMES};
use crate::operation::Operation;
use crate::scenario::Sharing;
use crate::violation::{Promise, Violation};

/// Longer than an engine may keep a lease that it does not use, in milliseconds.
const PATIENCE: u64 = 10_000;

/// The time after which aliases that have changed are read once more, in milliseconds.
const LONGEST_LAG: u64 = 120_000;

/// The maximum number of consecutive queries.
const QUERIES: u64 = 20;

/// The extra delay if wake-ups get lost, in milliseconds.
const UNPUNCTUAL: u64 = 60_000;

impl Harness {
    /// Checks that at the end all engines learn of every change within the interval and the time that the queries take.
    pub fn settle(&mut self) -> Result<(), Violation> {
        if self.scenario.bad_queries > 0 {
            return Ok(());
        }
        if let Some(shared) = &self.shared {
            shared.calm();
        }
        let end = self.now;
        let interval = self.scenario.settings.iter().map(|settings| settings.refresh).max().unwrap_or_default();
        let late = if self.scenario.punctual { 0 } else { UNPUNCTUAL };
        let slack = self.scenario.latency.saturating_mul(QUERIES).saturating_add(PATIENCE).saturating_add(late);
        let allowed = interval.saturating_add(slack);
        let mut looked_at = end;
        let mut stale = self.stale();
        while let Some(what) = stale {
            let since = self.last_change.max(end);
            Violation::unless(self.now <= since.saturating_add(allowed), Promise::Fresh, || what)?;
            if !self.step()? {
                break;
            }
            stale = match self.now > looked_at {
                true => self.stale(),
                false => Some(String::new()),
            };
            looked_at = self.now;
        }
        self.coverage.count("state: known everywhere in the end");
        Ok(())
    }

    /// Checks that all engines together poll each state of the cluster once, if nothing is lost and no engine stops.
    pub fn check_asked_once(&self) -> Result<(), Violation> {
        let scenario = &self.scenario;
        let all_is_well = scenario.bad_queries == 0 && scenario.deaths == 0 && scenario.punctual;
        if scenario.sharing != Sharing::All || !all_is_well {
            return Ok(());
        }
        // Each engine that polls may read the aliases once more, two minutes after they have changed.
        let confirmations = (self.now / LONGEST_LAG).saturating_mul(self.machines.len() as u64);
        let most = self.changed.saturating_add(1).saturating_add(confirmations);
        Violation::unless(self.asked <= most, Promise::AskedOnce, || {
            format!("{} changes, but {} queries for the overview", self.changed, self.asked)
        })
    }

    /// Returns a description of an engine's outdated knowledge, if there is any.
    fn stale(&self) -> Option<String> {
        let mut machines = self.machines.iter().enumerate().filter(|(_, machine)| machine.learns);
        machines.find_map(|(engine, machine)| self.stale_in(engine, machine))
    }

    fn stale_in(&self, engine: usize, machine: &Machine) -> Option<String> {
        let layout = self.cluster.layout();
        let Some(table) = machine.engine.table() else { return Some("an engine knows nothing".to_owned()) };
        for (name, id) in NAMES.iter().flat_map(|name| ["1", "2", "3"].map(|id| (*name, id))) {
            let operation = Operation {
                action: Action::Index,
                name: name.to_owned(),
                is_named: true,
                id: Some(id.to_owned()),
                routing: None,
                text: Vec::new(),
                is_conditional: false,
                piped: false,
                unproven: false,
                is_document: false,
            };
            let owner = layout.target(name).and_then(|(index, added)| layout.owner(index, &operation, added).flatten());
            let owner = owner.unwrap_or_else(|| COORDINATOR.to_owned());
            let found = match table.route(name, Some(hash(id)), None) {
                Ok(Route::Primary { upstream, .. }) => machine.engine.upstreams().name(upstream).to_string(),
                Ok(Route::AnyNode) | Err(_) => COORDINATOR.to_owned(),
            };
            let is_given_up = found == COORDINATOR && self.is_given_up(engine, &owner);
            if found != owner && !is_given_up {
                return Some(format!("an engine sends {name}/{id} to {found}, and it belongs to {owner}"));
            }
        }
        None
    }

    /// Returns whether an engine may lack an upstream for long. Envoy reported that there is none, and it is tried
    /// again after a refresh cycle is seen to end. Among engines that poll again at once, an engine that checks rarely
    /// may not see any cycle end.
    fn is_given_up(&self, engine: usize, upstream: &str) -> bool {
        let mut intervals = self.scenario.settings.iter().map(|settings| settings.refresh);
        let first = intervals.next();
        let look_alike = intervals.all(|interval| Some(interval) == first);
        !look_alike && self.ledger.missing.contains(&(engine, upstream.to_owned()))
    }

    /// Adds a worker that takes the lease as soon as it may, and stops for good after this many answers.
    pub fn die(&mut self, answers: usize) -> Result<(), Violation> {
        let (Some(shared), Some(settings)) = (&self.shared, self.scenario.settings.first()) else { return Ok(()) };
        let config = Config::read(settings.json().to_string().as_bytes());
        let config = config.map_err(|error| Violation::of(Promise::Drained, error.to_string()))?;
        let worker = self.rng.between(1 << 20, 1 << 30);
        let mut cache = StateCache::new(&config, worker, Box::new(shared.clone()));
        let (now, layout, mut answered) = (self.time(), self.cluster.layout(), 0_usize);
        cache.wake(now);
        cache.poll_soon(now);
        while let Some(action) = cache.next(now) {
            let PollAction::Ask(query) = action else { continue };
            let Some(truth) = layout.answer(&query.path(), COORDINATOR).filter(|_| answered < answers) else {
                self.coverage.count("engine: stopped for good");
                break;
            };
            answered = answered.saturating_add(1);
            cache.answered(200, truth.to_string().into_bytes(), now);
        }
        Ok(())
    }
}
