use crate::engine::batching::Ending;
use crate::engine::command::Response;
use crate::routing::Silence;

/// The reason why a batch has no usable answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The batch certainly never reached a node, so it may be sent again.
    #[error("no node could be reached")]
    NotSent,
    /// No connection could be made within `connect_timeout`, so the batch may be sent again.
    #[error("no connection to the node could be made in time")]
    ConnectTimeout,
    /// Envoy has no upstream of this name, so the batch may be sent elsewhere.
    #[error("Envoy has no cluster of this name")]
    NoUpstream,
    /// The connection broke before an answer came.
    #[error("the connection to the node was lost")]
    Lost,
    /// The node did not answer before the timeout of the call.
    #[error("the node did not answer before the timeout")]
    TimedOut,
    /// An answer came but was cut off or too large. The batch may have been carried out.
    #[error("the node's answer was lost or too large to read")]
    Unreadable,
    /// The answer does not match the batch.
    #[error("the node's answer does not match the operations that were sent to it")]
    Mismatch,
}

/// The beginning of Envoy's text for a call that ended before an answer. The reason follows. If Envoy has sent the call
/// more than once, it reports the last reason only, with other words in front of it.
const ENDED: &str = "upstream connect error or disconnect/reset before headers. ";

/// Envoy's reason for a connection that took too long.
const CONNECT_TIMEOUT: &str = "reset reason: connection timeout";

/// Envoy's reasons for failed connections and for too many requests.
const NOT_SENT: &[&str] =
    &["reset reason: remote connection failure", "reset reason: local connection failure", "reset reason: overflow"];

impl Failure {
    /// Returns what the failure of a query shows about its upstream.
    pub fn silence(self) -> Silence {
        match self {
            Self::NoUpstream => Silence::NoUpstream,
            Self::NotSent | Self::ConnectTimeout => Silence::Unreachable,
            _ => Silence::NoAnswer,
        }
    }

    /// Returns how the call with a batch ended.
    pub fn ending(self) -> Ending {
        match self {
            Self::TimedOut => Ending::Overloaded,
            _ => Ending::Failed,
        }
    }

    /// Returns the status of items whose outcome is unknown.
    pub fn status(self) -> u16 {
        match self {
            Self::TimedOut => 504,
            _ => 503,
        }
    }

    /// Returns the failure that a response from Envoy itself reports; `None` if the response comes from a node.
    pub fn of(response: &Response) -> Option<Self> {
        let is_plain = |(name, value): &(String, String)| name == "content-type" && value.starts_with("text/plain");
        if !matches!(response.status, 502..=504) || !response.headers.iter().any(is_plain) {
            return None;
        }
        let text = String::from_utf8_lossy(response.body.get(..300).unwrap_or(&response.body));
        match text.strip_prefix(ENDED) {
            Some(reason) if NOT_SENT.iter().any(|not_sent| reason.starts_with(not_sent)) => Some(Self::NotSent),
            Some(reason) if reason.starts_with(CONNECT_TIMEOUT) => Some(Self::ConnectTimeout),
            // The node sent something that is not HTTP. The status is 502 since Envoy 1.40.
            Some(reason) if reason.contains("reset reason: protocol error") => Some(Self::Unreadable),
            Some(_) => Some(Self::Lost),
            None if text.starts_with("no healthy upstream") => Some(Self::NotSent),
            None => text.starts_with("upstream request timeout").then_some(Self::TimedOut),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Option<Failure> {
        let headers = [("content-type".to_owned(), "text/plain".to_owned())].into();
        Failure::of(&Response { status, headers, body: body.as_bytes().to_vec() })
    }

    #[test]
    fn the_text_from_envoy_shows_whether_a_call_was_sent() {
        const RESET: &str = "upstream connect error or disconnect/reset before headers. reset reason: ";
        let refused = format!("{RESET}remote connection failure, transport failure reason: Connection refused");
        assert_eq!(of(503, &refused), Some(Failure::NotSent));
        assert_eq!(of(503, &format!("{RESET}overflow")), Some(Failure::NotSent));
        assert_eq!(of(503, "no healthy upstream"), Some(Failure::NotSent));
        // The first attempt may have been carried out.
        let retried = refused.replace("reset reason", "retried and the latest reset reason");
        assert_eq!(of(503, &retried), Some(Failure::Lost));
        assert_eq!(of(503, &format!("{RESET}connection termination")), Some(Failure::Lost));
        assert_eq!(of(504, "upstream request timeout"), Some(Failure::TimedOut));
        for status in [502, 503] {
            assert_eq!(of(status, &format!("{RESET}protocol error")), Some(Failure::Unreadable));
        }
    }

    #[test]
    fn a_response_from_a_node_is_an_answer() {
        assert_eq!(of(503, "busy"), None);
        assert_eq!(of(200, "no healthy upstream"), None);
        let headers = [("content-type".to_owned(), "application/json".to_owned())].into();
        let body = b"no healthy upstream".to_vec();
        assert_eq!(Failure::of(&Response { status: 503, headers, body }), None);
    }
}
