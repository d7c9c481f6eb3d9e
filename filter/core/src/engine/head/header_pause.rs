use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;

use crate::Time;
use crate::config::HeaderPause;
use crate::engine::command::RequestId;

/// The maximum time for which the headers of a request are held back without any of its body arriving, while it is not
/// known whether bodies arrive at all. If a body arrives at once when the headers continue, later requests are held back
/// for the second time: the body of a slow client would arrive before it is over.
const PATIENCE: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(400)];

/// The maximum time in which a body that was waiting behind its headers arrives after they continue. A body that
/// arrives later comes from a slow client.
const AT_ONCE: Duration = Duration::from_millis(20);

/// Detects how Envoy treats a request whose headers are held back.
///
/// With `allow_on_headers_stop_iteration`, Envoy delivers the body. Without it, Envoy holds the body back too, and the
/// request would never end. Then the headers must continue, to a buffer filter that keeps them until the body has
/// arrived.
#[derive(Debug)]
pub struct HeaderPauses {
    /// The configured mode; once it is detected, the one that works.
    mode: HeaderPause,
    /// Whether a body arrived at once when its headers continued.
    is_suspected: bool,
    /// The requests of which only the headers have arrived, oldest first, with their deadlines, and whether they are
    /// held back for the second time of [`PATIENCE`].
    waiting: VecDeque<(Time, RequestId, bool)>,
    /// The times at which the headers of requests continued, with the same.
    resumed: HashMap<RequestId, (Time, bool)>,
}

/// The handling of a body that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The body is to be read.
    Read,
    /// The headers have continued, so the body must follow them.
    Follow {
        /// Whether this body has just revealed that headers cannot be held back.
        newly_detected: bool,
    },
}

impl HeaderPauses {
    /// Starts in the configured mode.
    pub fn new(mode: HeaderPause) -> Self {
        Self { mode, is_suspected: false, waiting: VecDeque::new(), resumed: HashMap::new() }
    }

    /// Handles the headers of a request. Returns whether they are held back.
    pub fn enter(&mut self, request: RequestId, now: Time) -> bool {
        if self.mode == HeaderPause::Auto {
            let [first, second] = PATIENCE;
            let patience = if self.is_suspected { second } else { first };
            self.waiting.push_back((now.saturating_add(patience), request, self.is_suspected));
        }
        self.mode != HeaderPause::Buffer
    }

    /// Handles a chunk of a request's body, or its end.
    pub fn body(&mut self, request: RequestId, now: Time) -> Arrival {
        if let Some((resumed, was_suspected)) = self.resumed.remove(&request) {
            let is_at_once = self.mode == HeaderPause::Auto && now.saturating_sub(resumed) <= AT_ONCE;
            let newly_detected = is_at_once && was_suspected;
            if newly_detected {
                self.set_mode(HeaderPause::Buffer);
            }
            self.is_suspected |= is_at_once;
            return Arrival::Follow { newly_detected };
        }
        if self.mode == HeaderPause::Auto {
            self.set_mode(HeaderPause::Stop);
        }
        Arrival::Read
    }

    /// Forgets a request that is over.
    pub fn gone(&mut self, request: RequestId) {
        self.resumed.remove(&request);
    }

    /// Returns the deadline of the oldest request.
    pub fn deadline(&self) -> Option<Time> {
        self.waiting.front().map(|(deadline, ..)| *deadline)
    }

    /// Returns the next request whose deadline has passed, and whether it was held back for the second time. If it still
    /// exists, its headers continue.
    pub fn next_overdue(&mut self, now: Time) -> Option<(RequestId, bool)> {
        let (deadline, request, was_suspected) = *self.waiting.front()?;
        if deadline > now {
            return None;
        }
        self.waiting.pop_front();
        Some((request, was_suspected))
    }

    /// Notes that the headers of a request continue, which was held back for the second time or not.
    pub fn resume(&mut self, request: RequestId, was_suspected: bool, now: Time) {
        self.resumed.insert(request, (now, was_suspected));
    }

    fn set_mode(&mut self, mode: HeaderPause) {
        self.mode = mode;
        if mode == HeaderPause::Stop {
            self.waiting.clear();
        }
    }
}
