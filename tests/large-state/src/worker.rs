use std::rc::Rc;
use std::time::Duration;

use bulk_reshuffle::Time;
use bulk_reshuffle::config::Config;
use bulk_reshuffle::routing::{PollAction, PollEvent, RoutingTable, StateCache, StateQuery, Upstreams};
use rustix::time::{ClockId, clock_gettime};

use crate::{LargeCluster, Shelf};

/// One worker's copy of the state, and the steps in which it is kept fresh: what the filter does of it in one callback.
#[derive(Debug)]
pub struct Worker {
    cache: StateCache,
    upstreams: Upstreams,
    shelf: Shelf,
    now: Time,
    /// The newest table.
    pub table: Option<Rc<RoutingTable>>,
    /// What went wrong or was found.
    pub news: Vec<PollEvent>,
}

/// One step of a turn.
#[derive(Debug, Clone)]
pub struct Step {
    /// Processor time that it took: whatever else runs on the machine does not count.
    pub time: Duration,
    /// Bytes of the answer with which it began; 0: it began with none.
    pub answer: usize,
    /// What was asked at its end.
    pub asked: Option<StateQuery>,
    /// Values read from what workers share, and written to it.
    pub shared: (usize, usize),
}

const INTERVAL: Time = Time::from_secs(5);

impl Worker {
    /// A worker that knows nothing yet.
    #[allow(clippy::expect_used)]
    pub fn new(number: u64, shelf: &Shelf) -> Self {
        let config = Config::read(br#"{"coordinator":"es"}"#).expect("a configuration");
        let mut cache = StateCache::new(&config, number, Box::new(shelf.clone()));
        cache.wake(Time::ZERO);
        let upstreams = Upstreams::new("es");
        Self { cache, upstreams, shelf: shelf.clone(), now: Time::ZERO, table: None, news: Vec::new() }
    }

    /// An operation asked for this name in vain.
    pub fn want(&mut self, name: &str) {
        self.cache.want(name);
    }

    /// Lets an interval pass, then does what is due until there is nothing more, and tells of each step.
    pub fn refresh(&mut self, cluster: &LargeCluster) -> Vec<Step> {
        self.now += INTERVAL;
        let (mut steps, mut answer) = (Vec::new(), None);
        loop {
            self.shelf.take_counts();
            let bytes = answer.as_ref().map_or(0, Vec::len);
            let begin = processor_time();
            let errand = self.step(answer.take());
            let time = processor_time().saturating_sub(begin);
            let asked = match errand {
                None => return steps,
                Some(PollAction::Pause) => None,
                Some(PollAction::Ask(question)) => Some(question),
            };
            answer = asked.as_ref().and_then(|question| cluster.answer(&question.path())).map(String::into_bytes);
            steps.push(Step { time, answer: bytes, asked, shared: self.shelf.take_counts() });
        }
    }

    fn step(&mut self, answer: Option<Vec<u8>>) -> Option<PollAction> {
        if let Some(answer) = answer {
            self.cache.answered(200, answer, self.now);
        }
        let errand = self.cache.next(self.now);
        self.news.extend(std::iter::from_fn(|| self.cache.next_event()));
        let _ = self.cache.new_settings();
        self.table = self.cache.new_table(&mut self.upstreams).or(self.table.take());
        errand
    }
}

fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
