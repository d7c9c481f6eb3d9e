use serde_json::{Value, json};

use crate::rng::Rng;

/// The scenario of a run: how much happens, and how much of it fails. Percentages are of requests or calls.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub requests: u64,
    /// The time in which they arrive, in milliseconds.
    pub spread: u64,
    /// The maximum number of operations in a request.
    pub operations: u64,
    /// The number of different ids.
    pub ids: u64,
    pub callers: u64,
    /// The percentage of requests for single documents.
    pub documents: u64,
    /// Whether all single documents are created, in one index.
    pub creators: bool,
    /// The number of values of a header that distinguishes callers of one identity.
    pub opaque: u64,
    /// The percentage of requests that ask the cluster to wait.
    pub waiters: u64,
    /// The percentage of requests with a reason to pass through.
    pub odd: u64,
    /// The percentage of requests with compressed bodies.
    pub zipped: u64,
    /// The percentage of requests for only a part of the answer.
    pub filtered: u64,
    /// Whether Envoy lets the body of a request arrive while its headers are held back.
    pub stops: bool,
    /// The percentage of requests whose bodies arrive in very small pieces.
    pub crumbs: u64,
    /// The percentage of requests whose client leaves early.
    pub leavers: u64,
    /// The percentage of batches that meet a fault.
    pub faults: u64,
    /// The percentage of batches that cannot be sent.
    pub outage: u64,
    /// The percentage of items that a node refuses.
    pub refused_items: u64,
    /// The percentage of requests that a node refuses in any batch.
    pub poisoned: u64,
    /// The percentage of queries that get a wrong answer or none.
    pub bad_queries: u64,
    /// The longest one-way delay of a call, in milliseconds.
    pub latency: u64,
    pub slow: Slow,
    pub changes: u64,
    pub sharing: Sharing,
    /// The number of other workers that stop for good while they poll the cluster.
    pub deaths: u64,
    pub disturbances: u64,
    /// Whether wake-ups and ticks are on time. Otherwise they are late, and some are lost.
    pub punctual: bool,
    /// The settings of each engine. All engines except the first start later, while the previous one drains.
    pub settings: Vec<Settings>,
}

/// A shard for which a node takes much longer than for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slow {
    /// The index and the number of the shard.
    pub shard: (&'static str, u32),
    /// The additional time that a batch with an operation for it takes, in milliseconds. Zero means that no shard is
    /// slow.
    pub delay: u64,
    /// The time from which it is slow, in milliseconds.
    pub from: u64,
}

impl Slow {
    fn draw(rng: &mut Rng, surely: bool) -> Self {
        let delays = if surely { [3_000, 3_000, 20_000] } else { [0, 0, 20_000] };
        Self { shard: ("i", rng.up_to(5) as u32), delay: rng.one_of(&delays), from: rng.one_of(&[0, 50, 1_000]) }
    }
}

/// The default of `dispatch.identity`.
const IDENTITY: &[&str] = &["authorization", "x-forwarded-client-cert", "x-forwarded-for"];

/// What the engines share of their knowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    Nothing,
    #[default]
    All,
    /// Some shared data is lost or garbled.
    Some,
}

/// The settings of an engine: the fields of the configuration in [`Settings::json`], times in milliseconds, sizes in
/// bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    pub early_release: bool,
    pub gather: u64,
    pub interval: u64,
    pub flush_size: u64,
    pub flush_docs: u64,
    pub level: &'static str,
    pub max_in_flight: u64,
    pub max_in_flight_per_node: u64,
    pub identity: &'static [&'static str],
    pub memory: u64,
    pub max_request: u64,
    pub max_answer: u64,
    pub refresh: u64,
    pub retries: u64,
    pub header_pause: &'static str,
    pub missing_id: &'static str,
    pub single_documents: bool,
}

impl Scenario {
    pub fn draw(rng: &mut Rng) -> Self {
        let engines: u64 = rng.one_of(&[1, 1, 1, 1, 2, 3]);
        let stops = rng.percent(70);
        // Many requests at once, or many one after the other while a shard is slow.
        let (crowded, steady) = (rng.percent(10), rng.percent(10));
        // One client creates the same few documents over and over.
        let creators = rng.percent(3);
        let (crowded, steady) = (crowded && !creators, steady || creators);
        let sharing = rng.one_of(&[Sharing::All, Sharing::All, Sharing::All, Sharing::Some, Sharing::Nothing]);
        let mut settings: Vec<_> = (0..engines).map(|_| Settings::draw(rng, stops)).collect();
        let documents = if creators { 80 } else { rng.one_of(&[0, 0, 0, 0, 33, 33]) };
        settings.iter_mut().for_each(|settings| settings.single_documents = documents > 0);
        if sharing == Sharing::Some {
            // An engine that must poll for itself finds the others polling all the time if they poll far more often.
            let refresh = rng.one_of(&[200, 1_000, 5_000]);
            settings.iter_mut().for_each(|settings| settings.refresh = refresh);
        }
        Self {
            requests: match () {
                () if crowded => rng.between(80, 400),
                () if steady => rng.between(40, 120),
                () => rng.between(1, 50),
            },
            spread: match () {
                () if crowded => rng.up_to(20),
                () if steady => 5_000,
                () => rng.one_of(&[1, 20, 200, 3_000]),
            },
            operations: match () {
                () if crowded => 1,
                () if steady => rng.one_of(&[1, 3]),
                () => rng.one_of(&[1, 3, 8, 40]),
            },
            ids: if creators { 0 } else { rng.one_of(&[0, 2, 10, 200]) },
            callers: match () {
                () if creators => 0,
                () if crowded => rng.one_of(&[0, 1, 6]),
                () => rng.one_of(&[0, 1, 2, 6]),
            },
            documents,
            creators,
            opaque: if creators { 0 } else { rng.one_of(&[0, 0, 2, 40]) },
            waiters: rng.one_of(&[0, 0, 10, 60]),
            odd: rng.one_of(&[0, 5, 30]),
            zipped: rng.one_of(&[0, 0, 20, 80]),
            filtered: rng.one_of(&[0, 20, 80]),
            stops,
            crumbs: rng.one_of(&[0, 10, 50]),
            leavers: rng.one_of(&[0, 0, 5, 30]),
            faults: rng.one_of(&[0, 5, 20, 60]),
            outage: rng.one_of(&[0, 0, 0, 0, 0, 5, 90]),
            refused_items: rng.one_of(&[0, 0, 5, 30]),
            poisoned: rng.one_of(&[0, 0, 5]),
            bad_queries: rng.one_of(&[0, 0, 10, 50]),
            latency: if steady { rng.one_of(&[1, 10]) } else { rng.one_of(&[1, 10, 100, 2_000]) },
            slow: Slow::draw(rng, steady),
            changes: rng.one_of(&[0, 0, 3, 10]),
            sharing,
            deaths: rng.one_of(&[0, 0, 0, 1, 3]),
            disturbances: rng.one_of(&[0, 0, 0, 3, 20]),
            punctual: rng.percent(70),
            settings,
        }
    }
}

impl Settings {
    fn draw(rng: &mut Rng, stops: bool) -> Self {
        let header_pause = if stops { ["stop", "auto", "buffer"] } else { ["auto", "auto", "buffer"] };
        let max_in_flight = rng.one_of(&[1, 1, 2, 4]);
        let max_request = rng.one_of(&[400, 3_000, 1 << 20, 1 << 20, 1 << 20]);
        Self {
            early_release: rng.percent(60),
            gather: rng.one_of(&[0, 2, 2, 20]),
            interval: rng.one_of(&[1, 20, 50, 500]),
            flush_size: rng.one_of(&[1, 200, 2_000, 1 << 20, 1 << 20, 1 << 20]),
            flush_docs: rng.one_of(&[0, 0, 0, 1, 3, 50]),
            level: rng.one_of(&["node", "node", "shard"]),
            max_in_flight,
            max_in_flight_per_node: max_in_flight.saturating_add(rng.one_of(&[0, 1, 3, 16])),
            identity: rng.one_of(&[IDENTITY, IDENTITY, IDENTITY, &["x-opaque-id", "authorization"], &[]]),
            memory: max_request.max(rng.one_of(&[2_000, 20_000, 1 << 24, 1 << 24, 1 << 24])),
            max_request,
            max_answer: rng.one_of(&[4_000, 20_000, 32 << 20, 32 << 20, 32 << 20]),
            refresh: rng.one_of(&[20, 200, 5_000]),
            retries: rng.one_of(&[0, 0, 1, 3]),
            header_pause: rng.one_of(&header_pause),
            missing_id: rng.one_of(&["generate", "generate", "pass", "direct"]),
            single_documents: false,
        }
    }

    /// Returns the shortest time after which a batch is late, in milliseconds.
    pub fn late_after(&self) -> u64 {
        self.interval.saturating_mul(4)
    }

    /// Returns the longest wait for further requests after a batch that took this many milliseconds.
    pub fn longest_wait(&self, took: u64) -> u64 {
        let wait = if self.gather == 0 { 0 } else { self.gather.max(took.div_ceil(4)) };
        wait.min(took).min(self.interval)
    }

    /// Returns the settings as the plug-in's configuration.
    pub fn json(&self) -> Value {
        json!({
            "coordinator": crate::layout::COORDINATOR,
            "cluster_state": {"refresh": format!("{}ms", self.refresh)},
            "hold": {
                "early_release": self.early_release,
                "late_after": format!("{}ms", self.late_after()),
                "gather": format!("{}ms", self.gather),
                "interval": format!("{}ms", self.interval),
                "flush_threshold_size": format!("{}b", self.flush_size),
                "flush_threshold_docs": self.flush_docs,
            },
            "dispatch": {
                "level": self.level,
                "max_in_flight": self.max_in_flight,
                "max_in_flight_per_node": self.max_in_flight_per_node,
                "identity": self.identity,
            },
            "missing_id": self.missing_id,
            "single_documents": self.single_documents,
            "header_pause": self.header_pause,
            "retry": {"attempts": self.retries, "backoff": "5ms", "max_backoff": "50ms"},
            "limits": {
                "memory": format!("{}b", self.memory),
                "max_request": format!("{}b", self.max_request),
                "max_answer": format!("{}b", self.max_answer),
            },
        })
    }
}
