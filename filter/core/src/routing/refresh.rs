use super::{Aliases, ClusterState, Version};
use crate::Time;

/// Keeps the routing table fresh: says when to ask the cluster what, and puts the answers together.
///
/// Each turn asks for the state's version first (about 100 bytes) and for the state itself, without mappings, only
/// if it changed; then for the aliases, whose details the state leaves out, if it has any.
#[derive(Debug)]
pub struct Refresh {
    interval: Time,
    phase: Phase,
    known: Option<Version>,
}

/// The shortest time between two turns, as a share of the interval, however often answers hint at a change.
const HURRY: u32 = 5;

#[derive(Debug)]
enum Phase {
    /// Until the first bulk request nothing is asked.
    Asleep,
    Waiting {
        since: Time,
        until: Time,
    },
    Ready(Question, Option<Box<ClusterState>>),
    Asking(Question, Option<Box<ClusterState>>),
}

/// What the cluster is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Has anything changed?
    Version,
    /// Where is everything?
    State,
    /// Which index does each alias write to?
    Aliases,
}

/// All that a routing table is built from.
#[derive(Debug)]
pub struct Loaded {
    /// The cluster's state.
    pub state: ClusterState,
    /// Its aliases.
    pub aliases: Aliases,
}

/// A turn came to nothing; the next one follows after the interval.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// The cluster answered, but not with 200.
    #[error("{question:?}: the cluster answered with status {status}")]
    Status {
        /// What was asked.
        question: Question,
        /// What came back.
        status: u16,
    },
    /// No answer came.
    #[error("{question:?}: no answer")]
    Unanswered {
        /// What was asked.
        question: Question,
    },
    /// The answer does not have the form that is expected of a cluster.
    #[error("{question:?}: {error}")]
    Form {
        /// What was asked.
        question: Question,
        /// What is wrong, and where.
        error: serde_json::Error,
    },
}

impl Question {
    /// Path and query of the `GET`.
    pub fn path(self) -> &'static str {
        match self {
            Self::Version => Version::PATH,
            Self::State => ClusterState::PATH,
            Self::Aliases => Aliases::PATH,
        }
    }
}

impl Refresh {
    /// A cache that nobody has asked for yet, to be refreshed on this interval.
    pub fn new(interval: Time) -> Self {
        Self { interval, phase: Phase::Asleep, known: None }
    }

    /// The first bulk request is here.
    pub fn wake(&mut self, now: Time) {
        if let Phase::Asleep = self.phase {
            self.phase = Phase::Waiting { since: now, until: now };
        }
    }

    /// Something hints at a change: the next turn comes sooner, but not at once again and again.
    pub fn hurry(&mut self) {
        if let Phase::Waiting { since, until } = &mut self.phase {
            *until = (*until).min(since.saturating_add(self.interval / HURRY));
        }
    }

    /// When [`next`](Self::next) will have a question.
    pub fn due(&self) -> Option<Time> {
        match self.phase {
            Phase::Waiting { until, .. } => Some(until),
            Phase::Ready(..) => Some(Time::ZERO),
            Phase::Asleep | Phase::Asking(..) => None,
        }
    }

    /// The question to ask now, if any; it must then be [`answered`](Self::answered) or [`failed`](Self::failed).
    pub fn next(&mut self, now: Time) -> Option<Question> {
        if matches!(self.phase, Phase::Waiting { until, .. } if until <= now) {
            let question = if self.known.is_some() { Question::Version } else { Question::State };
            self.phase = Phase::Ready(question, None);
        }
        match std::mem::replace(&mut self.phase, Phase::Asleep) {
            Phase::Ready(question, state) => {
                self.phase = Phase::Asking(question, state);
                Some(question)
            }
            other => {
                self.phase = other;
                None
            }
        }
    }

    /// The cluster has answered the question that was asked last. Returns what it takes to build a new table, once
    /// all of it is there and if anything changed.
    pub fn answered(&mut self, status: u16, body: &[u8], now: Time) -> Result<Option<Loaded>, RefreshError> {
        let Phase::Asking(question, state) = std::mem::replace(&mut self.phase, Phase::Asleep) else {
            self.rest(now);
            return Ok(None);
        };
        // Whatever happens below, a turn that does not go on has ended.
        self.rest(now);
        if status != 200 {
            return Err(RefreshError::Status { question, status });
        }
        let form = |error| RefreshError::Form { question, error };
        match (question, state) {
            (Question::Version, _) => {
                if self.known != Some(Version::read(body).map_err(form)?) {
                    self.phase = Phase::Ready(Question::State, None);
                }
                Ok(None)
            }
            (Question::Aliases, Some(state)) => {
                let aliases = Aliases::read(body).map_err(form)?;
                Ok(Some(self.loaded(*state, aliases)))
            }
            _ => {
                let state = ClusterState::read(body).map_err(form)?;
                if state.has_aliases() {
                    self.phase = Phase::Ready(Question::Aliases, Some(Box::new(state)));
                    return Ok(None);
                }
                Ok(Some(self.loaded(state, Aliases::default())))
            }
        }
    }

    /// The question that was asked last got no answer.
    pub fn failed(&mut self, now: Time) {
        self.rest(now);
    }

    fn loaded(&mut self, state: ClusterState, aliases: Aliases) -> Loaded {
        self.known = Some(state.version.clone());
        Loaded { state, aliases }
    }

    fn rest(&mut self, now: Time) {
        self.phase = Phase::Waiting { since: now, until: now.saturating_add(self.interval) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Time = Time::from_secs(1);
    const VERSION: &[u8] = br#"{"version":7,"state_uuid":"u","cluster_uuid":"c"}"#;
    const ALIASED: &[u8] = br#"{"version":7,"state_uuid":"u","cluster_uuid":"c",
        "metadata":{"indices":{"i":{"state":"open","aliases":["a"]}}}}"#;

    fn woken() -> Refresh {
        let mut refresh = Refresh::new(5 * SECOND);
        refresh.wake(Time::ZERO);
        refresh
    }

    /// One that has loaded version 7 at time zero.
    fn loaded() -> Refresh {
        let mut refresh = woken();
        assert_eq!(refresh.next(Time::ZERO), Some(Question::State));
        assert!(refresh.answered(200, VERSION, Time::ZERO).unwrap().is_some());
        refresh
    }

    #[test]
    fn sleeps_until_the_first_bulk_request() {
        let mut refresh = Refresh::new(SECOND);
        assert_eq!((refresh.due(), refresh.next(9 * SECOND)), (None, None));
        refresh.wake(9 * SECOND);
        assert_eq!((refresh.due(), refresh.next(9 * SECOND)), (Some(9 * SECOND), Some(Question::State)));
        assert_eq!((refresh.due(), refresh.next(99 * SECOND)), (None, None));
    }

    #[test]
    fn asks_for_aliases_only_where_there_are_any() {
        let mut refresh = woken();
        refresh.next(Time::ZERO);
        assert!(refresh.answered(200, ALIASED, Time::ZERO).unwrap().is_none());
        assert_eq!(refresh.next(Time::ZERO), Some(Question::Aliases));
        assert!(refresh.answered(200, b"{}", Time::ZERO).unwrap().is_some());
        assert_eq!(refresh.due(), Some(5 * SECOND));
    }

    #[test]
    fn asks_for_the_state_only_when_its_version_changed() {
        let mut refresh = loaded();
        assert_eq!(refresh.next(4 * SECOND), None);
        assert_eq!(refresh.next(5 * SECOND), Some(Question::Version));
        assert!(refresh.answered(200, VERSION, 6 * SECOND).unwrap().is_none());
        assert_eq!(refresh.due(), Some(11 * SECOND));
        for other in [
            &br#"{"version":8,"state_uuid":"v","cluster_uuid":"c"}"#[..],
            br#"{"version":6,"state_uuid":"u","cluster_uuid":"c"}"#,
            br#"{"version":7,"state_uuid":"u","cluster_uuid":"d"}"#,
        ] {
            let mut refresh = loaded();
            refresh.next(5 * SECOND);
            assert!(refresh.answered(200, other, 5 * SECOND).unwrap().is_none());
            assert_eq!(refresh.next(5 * SECOND), Some(Question::State));
        }
    }

    #[test]
    fn a_hint_brings_the_next_turn_forward_but_not_again_and_again() {
        let mut refresh = loaded();
        refresh.hurry();
        refresh.hurry();
        assert_eq!(refresh.due(), Some(SECOND));
    }

    #[test]
    fn goes_on_after_a_failed_turn() {
        let mut refresh = woken();
        refresh.next(Time::ZERO);
        assert!(matches!(
            refresh.answered(401, b"", SECOND),
            Err(RefreshError::Status { question: Question::State, status: 401 })
        ));
        assert_eq!(refresh.next(6 * SECOND), Some(Question::State));
        assert!(matches!(refresh.answered(200, b"{\"version\":", 6 * SECOND), Err(RefreshError::Form { .. })));
        assert_eq!(refresh.next(11 * SECOND), Some(Question::State));
        refresh.failed(12 * SECOND);
        assert_eq!(refresh.due(), Some(17 * SECOND));
    }
}
