use std::time::Duration;

use bulk_reshuffle::config::Switches;
use bulk_reshuffle::engine::Engine;
use bulk_reshuffle::routing::UpstreamId;

use crate::dice::Dice;

/// What may change for an engine while requests are here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disturbance {
    /// Other switches in the cluster's settings.
    Switched(Switches),
    /// These upstreams have no node any more, as far as the engine is told.
    Gone(Vec<UpstreamId>),
}

impl Disturbance {
    /// Draws one for an engine.
    pub fn draw(dice: &mut Dice, engine: &Engine) -> Self {
        if dice.percent(50) {
            return Self::Gone(engine.upstreams().ids().filter(|_| dice.percent(40)).collect());
        }
        let on = dice.one_of(&[None, Some(true), Some(false)]);
        Self::Switched(Switches {
            enabled: on.filter(|_| dice.percent(50)),
            interval: dice.one_of(&[None, Some(1), Some(50), Some(500)]).map(Duration::from_millis),
            flush_threshold_size: dice.one_of(&[None, Some(1), Some(500)]),
            flush_threshold_docs: dice.one_of(&[None, Some(0), Some(1), Some(20)]),
            early_release: dice.one_of(&[None, Some(true), Some(false)]),
            missing_id: None,
            max_in_flight: dice.one_of(&[None, Some(1), Some(2), Some(50)]),
        })
    }

    /// For the counts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Switched(Switches { enabled: Some(false), .. }) => "switched off",
            Self::Switched(_) => "switched",
            Self::Gone(_) => "told that nodes have gone",
        }
    }

    /// Lets it happen.
    pub fn happen(self, engine: &mut Engine) {
        match self {
            Self::Switched(switches) => engine.switch(switches, Vec::new()),
            Self::Gone(upstreams) => engine.redirect_from(&upstreams),
        }
    }
}
