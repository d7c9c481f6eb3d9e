//! The outcome of each request, for the access log. Each field costs a call to Envoy, so the fields are set only if
//! `access_log` is on.

use crate::config::Config;
use crate::engine::command::RequestId;
use crate::engine::outbox::Outbox;
use crate::engine::pass_through::PassThrough;
use crate::engine::requests::Request;

/// Logs that a request passes through, and why.
pub fn passed_through(outbox: &mut Outbox, config: &Config, request: RequestId, why: PassThrough) {
    if config.access_log {
        outbox.log(request, "outcome", "passed_through".to_owned());
        outbox.log(request, "reason", why.name().to_owned());
    }
}

/// Logs a merged request: the number of operations and of destinations, and the longest time that a share was held.
pub fn merged(outbox: &mut Outbox, config: &Config, id: RequestId, request: &Request) {
    if config.access_log {
        outbox.log(id, "outcome", "merged".to_owned());
        outbox.log(id, "operations", request.operations.len().to_string());
        outbox.log(id, "shares", request.shares.len().to_string());
        outbox.log(id, "held_microseconds", request.longest_held().as_micros().to_string());
    }
}
