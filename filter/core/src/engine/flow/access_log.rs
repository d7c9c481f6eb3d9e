//! The outcome of each request, for the access log. Each field costs a call to Envoy, so the fields are set only if
//! `access_log` is on.

use crate::engine::Engine;
use crate::engine::command::RequestId;
use crate::engine::pass_through::PassThrough;
use crate::engine::request::Request;

impl Engine {
    /// Logs that a request passes through, and why.
    pub(crate) fn record_passed_through(&mut self, request: RequestId, why: PassThrough) {
        if self.settings.current.access_log {
            self.outbox.log(request, "outcome", "passed_through".to_owned());
            self.outbox.log(request, "reason", why.name().to_owned());
        }
    }

    /// Logs a merged request: the number of operations and of destinations, and the longest time that a share was held.
    pub(crate) fn record_merged(&mut self, id: RequestId, request: &Request) {
        if self.settings.current.access_log {
            self.outbox.log(id, "outcome", "merged".to_owned());
            self.outbox.log(id, "operations", request.operations.len().to_string());
            self.outbox.log(id, "shares", request.shares.len().to_string());
            self.outbox.log(id, "held_microseconds", request.held.as_micros().to_string());
        }
    }
}
