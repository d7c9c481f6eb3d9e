use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;

use crate::Time;
use crate::config::HeaderPause;
use crate::engine::command::RequestId;

/// How long the headers of a request may be held back without any of its body coming, until it is known that a body
/// comes at all.
const PATIENCE: Duration = Duration::from_millis(200);

/// A body that was waiting behind the headers comes at once when these are let go. One that comes later comes from a
/// client that is slow.
const AT_ONCE: Duration = Duration::from_millis(20);

/// Finds out how Envoy treats a request whose headers are held back.
///
/// With `allow_on_headers_stop_iteration` Envoy lets the body come. Without it Envoy holds the body back too, and the
/// request would never end; then the headers have to go on, to a buffer filter that keeps them until the body is
/// there.
#[derive(Debug)]
pub struct HeaderPauses {
    mode: Mode,
    /// Requests of which only the headers are here, oldest first, with the end of the patience.
    waiting: VecDeque<(Time, RequestId)>,
    /// When the headers of a request were let go.
    resumed: HashMap<RequestId, Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Unknown,
    HeadersStop,
    HeadersGo,
}

/// What the arrival of a body says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is to be read.
    Read,
    /// Its headers are gone: it has to follow them.
    Follow {
        /// Whether it is only now known that headers cannot be held back here.
        learnt: bool,
    },
}

impl HeaderPauses {
    /// Begins as configured.
    pub fn new(config: HeaderPause) -> Self {
        let mode = match config {
            HeaderPause::Auto => Mode::Unknown,
            HeaderPause::Stop => Mode::HeadersStop,
            HeaderPause::Buffer => Mode::HeadersGo,
        };
        Self { mode, waiting: VecDeque::new(), resumed: HashMap::new() }
    }

    /// A request's headers are here. Says whether they are held back.
    pub fn enter(&mut self, request: RequestId, now: Time) -> bool {
        if self.mode == Mode::Unknown {
            self.waiting.push_back((now.saturating_add(PATIENCE), request));
        }
        self.mode != Mode::HeadersGo
    }

    /// A piece of a request's body is here, or its end.
    pub fn body(&mut self, request: RequestId, now: Time) -> Arrival {
        if let Some(resumed) = self.resumed.remove(&request) {
            let learnt = self.mode == Mode::Unknown && now.saturating_sub(resumed) <= AT_ONCE;
            if learnt {
                self.learn(Mode::HeadersGo);
            }
            return Arrival::Follow { learnt };
        }
        if self.mode == Mode::Unknown {
            self.learn(Mode::HeadersStop);
        }
        Arrival::Read
    }

    /// A request is over.
    pub fn gone(&mut self, request: RequestId) {
        self.resumed.remove(&request);
    }

    /// When the patience with a request ends.
    pub fn deadline(&self) -> Option<Time> {
        self.waiting.front().map(|(deadline, _)| *deadline)
    }

    /// The next request with which the patience has ended: if it is still here, its headers are let go.
    pub fn next_overdue(&mut self, now: Time) -> Option<RequestId> {
        let (deadline, _) = self.waiting.front()?;
        if *deadline > now {
            return None;
        }
        self.waiting.pop_front().map(|(_, request)| request)
    }

    /// The headers of a request were let go.
    pub fn resume(&mut self, request: RequestId, now: Time) {
        self.resumed.insert(request, now);
    }

    fn learn(&mut self, mode: Mode) {
        self.mode = mode;
        if mode == Mode::HeadersStop {
            self.waiting.clear();
        }
    }
}
