use serde_json::{Value, json};

use crate::dice::Dice;

/// What kind of day a run is: how much happens, and how much of it goes wrong. Percentages are of requests or calls.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// How many requests.
    pub requests: u64,
    /// Milliseconds in which they arrive.
    pub spread: u64,
    /// The most operations of a request.
    pub operations: u64,
    /// How many ids there are.
    pub ids: u64,
    /// How many callers there are.
    pub callers: u64,
    /// How many values a header has that tells callers of one identity apart.
    pub opaque: u64,
    /// Requests that ask the cluster to wait.
    pub waiters: u64,
    /// Requests with a reason to pass through.
    pub odd: u64,
    /// Requests whose bodies are compressed.
    pub zipped: u64,
    /// Requests that want to see only a part of the answer.
    pub filtered: u64,
    /// Whether Envoy lets the body of a request come while its headers are held back.
    pub stops: bool,
    /// Requests whose bodies come in very small pieces.
    pub crumbs: u64,
    /// Requests whose client leaves early.
    pub leavers: u64,
    /// Batches that meet a fault.
    pub faults: u64,
    /// Batches that cannot be sent.
    pub outage: u64,
    /// Items that a node refuses.
    pub refused_items: u64,
    /// Requests that a node refuses whatever they travel in.
    pub poisoned: u64,
    /// Questions that are answered wrongly or not at all.
    pub bad_questions: u64,
    /// The longest way of a call, in milliseconds.
    pub latency: u64,
    /// How often the cluster changes.
    pub changes: u64,
    /// What engines share.
    pub sharing: Sharing,
    /// How many others stop for good while they ask the cluster.
    pub deaths: u64,
    /// How often an engine is switched, or told that nodes have gone.
    pub disturbances: u64,
    /// Whether wake-ups and ticks come when they should; else they come late, and some not at all.
    pub punctual: bool,
    /// One for each engine: all but the first take over later, while the one before drains.
    pub settings: Vec<Settings>,
}

/// The default of `dispatch.identity`.
const IDENTITY: &[&str] = &["authorization", "x-forwarded-client-cert", "x-forwarded-for"];

/// What engines share of what they know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Nothing.
    Nothing,
    /// Everything.
    #[default]
    All,
    /// What does not get lost or garbled on its way.
    Some,
}

/// What an engine is configured with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `hold.early_release`
    pub early_release: bool,
    /// `hold.gather`, in milliseconds.
    pub gather: u64,
    /// `hold.interval`, in milliseconds.
    pub interval: u64,
    /// `hold.flush_threshold_size`
    pub flush_size: u64,
    /// `hold.flush_threshold_docs`
    pub flush_docs: u64,
    /// `dispatch.level`
    pub level: &'static str,
    /// `dispatch.max_in_flight`
    pub max_in_flight: u64,
    /// `dispatch.max_in_flight_per_node`
    pub max_in_flight_per_node: u64,
    /// `dispatch.identity`
    pub identity: &'static [&'static str],
    /// `limits.memory`
    pub memory: u64,
    /// `limits.max_request`
    pub max_request: u64,
    /// `limits.max_answer`
    pub max_answer: u64,
    /// `cluster_state.refresh`, in milliseconds.
    pub refresh: u64,
    /// `retry.attempts`
    pub retries: u64,
    /// `header_pause`
    pub header_pause: &'static str,
    /// `missing_id`
    pub missing_id: &'static str,
}

impl Scenario {
    /// Draws one.
    pub fn draw(dice: &mut Dice) -> Self {
        let engines: u64 = dice.one_of(&[1, 1, 1, 1, 2, 3]);
        let stops = dice.percent(70);
        let crowded = dice.percent(10);
        let sharing = dice.one_of(&[Sharing::All, Sharing::All, Sharing::All, Sharing::Some, Sharing::Nothing]);
        let mut settings: Vec<_> = (0..engines).map(|_| Settings::draw(dice, stops)).collect();
        if sharing == Sharing::Some {
            // Whoever has to look for itself finds the others at it all the time if they look far more often.
            let refresh = dice.one_of(&[200, 1_000, 5_000]);
            settings.iter_mut().for_each(|settings| settings.refresh = refresh);
        }
        Self {
            requests: if crowded { dice.between(80, 400) } else { dice.between(1, 50) },
            spread: if crowded { dice.up_to(20) } else { dice.one_of(&[1, 20, 200, 3_000]) },
            operations: if crowded { 1 } else { dice.one_of(&[1, 3, 8, 40]) },
            ids: dice.one_of(&[0, 2, 10, 200]),
            callers: if crowded { dice.one_of(&[0, 1, 6]) } else { dice.one_of(&[0, 1, 2, 6]) },
            opaque: dice.one_of(&[0, 0, 2, 40]),
            waiters: dice.one_of(&[0, 0, 10, 60]),
            odd: dice.one_of(&[0, 5, 30]),
            zipped: dice.one_of(&[0, 0, 20, 80]),
            filtered: dice.one_of(&[0, 20, 80]),
            stops,
            crumbs: dice.one_of(&[0, 10, 50]),
            leavers: dice.one_of(&[0, 0, 5, 30]),
            faults: dice.one_of(&[0, 5, 20, 60]),
            outage: dice.one_of(&[0, 0, 0, 0, 0, 5, 90]),
            refused_items: dice.one_of(&[0, 0, 5, 30]),
            poisoned: dice.one_of(&[0, 0, 5]),
            bad_questions: dice.one_of(&[0, 0, 10, 50]),
            latency: dice.one_of(&[1, 10, 100, 2_000]),
            changes: dice.one_of(&[0, 0, 3, 10]),
            sharing,
            deaths: dice.one_of(&[0, 0, 0, 1, 3]),
            disturbances: dice.one_of(&[0, 0, 0, 3, 20]),
            punctual: dice.percent(70),
            settings,
        }
    }
}

impl Settings {
    fn draw(dice: &mut Dice, stops: bool) -> Self {
        let header_pause = if stops { ["stop", "auto", "buffer"] } else { ["auto", "auto", "buffer"] };
        let max_in_flight = dice.one_of(&[1, 1, 2, 4]);
        let max_request = dice.one_of(&[400, 3_000, 1 << 20, 1 << 20, 1 << 20]);
        Self {
            early_release: dice.percent(60),
            gather: dice.one_of(&[0, 2, 2, 20]),
            interval: dice.one_of(&[1, 20, 50, 500]),
            flush_size: dice.one_of(&[1, 200, 2_000, 1 << 20, 1 << 20, 1 << 20]),
            flush_docs: dice.one_of(&[0, 0, 0, 1, 3, 50]),
            level: dice.one_of(&["node", "node", "shard"]),
            max_in_flight,
            max_in_flight_per_node: max_in_flight.saturating_add(dice.one_of(&[0, 1, 3, 16])),
            identity: dice.one_of(&[IDENTITY, IDENTITY, IDENTITY, &["x-opaque-id", "authorization"], &[]]),
            memory: max_request.max(dice.one_of(&[2_000, 20_000, 1 << 24, 1 << 24, 1 << 24])),
            max_request,
            max_answer: dice.one_of(&[4_000, 20_000, 32 << 20, 32 << 20, 32 << 20]),
            refresh: dice.one_of(&[20, 200, 5_000]),
            retries: dice.one_of(&[0, 0, 1, 3]),
            header_pause: dice.one_of(&header_pause),
            missing_id: dice.one_of(&["generate", "generate", "pass", "direct"]),
        }
    }

    /// As the plug-in's configuration.
    pub fn json(&self) -> Value {
        json!({
            "coordinator": crate::layout::COORDINATOR,
            "cluster_state": {"refresh": format!("{}ms", self.refresh)},
            "hold": {
                "early_release": self.early_release,
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
