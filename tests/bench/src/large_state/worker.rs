use std::rc::Rc;
use std::time::Duration;

use bulk_reshuffle::Time;
use bulk_reshuffle::config::Config;
use bulk_reshuffle::routing::{PollAction, PollEvent, RoutingTable, StateCache, StateQuery, Upstreams};
use rustix::time::{ClockId, clock_gettime};

use super::{LargeCluster, Shelf};

/// One worker's copy of the state, and the steps that keep it fresh: the filter's work in one callback.
#[derive(Debug)]
pub struct Worker {
    cache: StateCache,
    upstreams: Upstreams,
    shelf: Shelf,
    now: Time,
    pub table: Option<Rc<RoutingTable>>,
    pub events: Vec<PollEvent>,
}

/// One step of a refresh cycle.
#[derive(Debug, Clone)]
pub struct Step {
    /// The processor time of the step, without other work on the machine.
    pub time: Duration,
    /// The size of the answer that the step begins with, in bytes, or zero if there is none.
    pub answer: usize,
    /// The query that the step ends with.
    pub asked: Option<StateQuery>,
    /// The numbers of shared values that were read and written.
    pub shared: (usize, usize),
}

const INTERVAL: Time = Time::from_secs(5);

impl Worker {
    /// Creates a worker that knows nothing yet.
    pub fn new(number: u64, shelf: &Shelf) -> Self {
        Self::configured(number, shelf, r#"{"coordinator":"es"}"#)
    }

    /// Does the same with this configuration.
    #[allow(clippy::expect_used)]
    pub fn configured(number: u64, shelf: &Shelf, config: &str) -> Self {
        let config = Config::read(config.as_bytes()).expect("a configuration");
        let mut cache = StateCache::new(&config, number, Box::new(shelf.clone()));
        cache.wake(Time::ZERO);
        let upstreams = Upstreams::of(&config);
        Self { cache, upstreams, shelf: shelf.clone(), now: Time::ZERO, table: None, events: Vec::new() }
    }

    /// Records that an operation used this name, which the table does not know.
    pub fn want(&mut self, name: &str) {
        self.cache.want(name);
    }

    /// Advances the time by an interval and performs all due actions. Returns the steps.
    pub fn refresh(&mut self, cluster: &LargeCluster) -> Vec<Step> {
        self.now += INTERVAL;
        let (mut steps, mut answer) = (Vec::new(), None);
        loop {
            self.shelf.take_counts();
            let bytes = answer.as_ref().map_or(0, Vec::len);
            let begin = processor_time();
            let action = self.step(answer.take());
            let time = processor_time().saturating_sub(begin);
            let asked = match action {
                None => return steps,
                Some(PollAction::Pause) => None,
                Some(PollAction::Ask(query)) => Some(query),
            };
            answer = asked.as_ref().and_then(|query| cluster.answer(0, &query.path())).map(String::into_bytes);
            steps.push(Step { time, answer: bytes, asked, shared: self.shelf.take_counts() });
        }
    }

    fn step(&mut self, answer: Option<Vec<u8>>) -> Option<PollAction> {
        if let Some(answer) = answer {
            self.cache.answered(200, answer, self.now);
        }
        let action = self.cache.next(self.now);
        self.events.extend(std::iter::from_fn(|| self.cache.next_event()));
        let _ = self.cache.new_settings();
        self.table = self.cache.new_table(&mut self.upstreams).or(self.table.take());
        action
    }
}

fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
