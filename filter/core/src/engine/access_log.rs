//! What becomes of each request, for the access log. Each field costs a call to Envoy, so it is kept only if that is
//! configured.

use super::request::Request;
use super::{Command, Engine, PassThrough, RequestId};

impl Engine {
    /// Keeps that a request passes through, and why.
    pub(super) fn note_passed_through(&mut self, request: RequestId, why: PassThrough) {
        if self.config.access_log {
            self.note(request, "outcome", "passed_through".to_owned());
            self.note(request, "reason", why.name().to_owned());
        }
    }

    /// Keeps what a request was that is answered now: of how many operations, for how many destinations, and for how long
    /// the share was held that was held longest.
    pub(super) fn note_merged(&mut self, id: RequestId, request: &Request) {
        if self.config.access_log {
            self.note(id, "outcome", "merged".to_owned());
            self.note(id, "operations", request.operations.len().to_string());
            self.note(id, "shares", request.shares.len().to_string());
            self.note(id, "held_microseconds", request.held.as_micros().to_string());
        }
    }

    fn note(&mut self, request: RequestId, field: &'static str, value: String) {
        self.notes.push_back(Command::Note { request, field, value });
    }
}
