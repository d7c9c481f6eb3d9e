use crate::engine::command::Response;

/// Why a batch has no answer that could be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It surely never reached a node: it may be sent again.
    #[error("no node could be reached")]
    NotSent,
    /// The connection broke before an answer came.
    #[error("the connection to the node was lost")]
    Lost,
    /// The node took longer than the call was given.
    #[error("the node did not answer in time")]
    TimedOut,
    /// An answer came, and broke off or was too large: it may well have been carried out.
    #[error("the node's answer was lost or too large to read")]
    Unreadable,
    /// The answer is not one to the batch that was sent.
    #[error("the node's answer does not fit the operations that it was sent")]
    Mismatch,
}

/// What Envoy says when it could not connect, or had too many requests already.
const NOT_SENT: &[&str] = &[
    "reset reason: remote connection failure",
    "reset reason: local connection failure",
    "reset reason: connection timeout",
    "reset reason: overflow",
    "no healthy upstream",
];

impl Failure {
    /// The error of items whose outcome is unknown.
    pub fn status(self) -> u16 {
        match self {
            Self::TimedOut => 504,
            _ => 503,
        }
    }

    /// Tells Envoy's own words, which come in the form of a response, from a node's.
    pub fn of(response: &Response) -> Option<Self> {
        let is_plain = |(name, value): &(String, String)| name == "content-type" && value.starts_with("text/plain");
        if !matches!(response.status, 502..=504) || !response.headers.iter().any(is_plain) {
            return None;
        }
        let text = String::from_utf8_lossy(response.body.get(..300).unwrap_or(&response.body));
        if NOT_SENT.iter().any(|words| text.contains(words)) {
            return Some(Self::NotSent);
        }
        if text.starts_with("upstream connect error or disconnect/reset before headers") {
            // With 502 since Envoy 1.40: something came, and was no HTTP.
            let is_no_http = text.contains("reset reason: protocol error");
            return Some(if is_no_http { Self::Unreadable } else { Self::Lost });
        }
        text.starts_with("upstream request timeout").then_some(Self::TimedOut)
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
    fn envoys_words_say_whether_a_call_was_sent() {
        const RESET: &str = "upstream connect error or disconnect/reset before headers. reset reason: ";
        let refused = format!("{RESET}remote connection failure, transport failure reason: Connection refused");
        assert_eq!(of(503, &refused), Some(Failure::NotSent));
        assert_eq!(of(503, &format!("{RESET}overflow")), Some(Failure::NotSent));
        assert_eq!(of(503, "no healthy upstream"), Some(Failure::NotSent));
        assert_eq!(of(503, &format!("{RESET}connection termination")), Some(Failure::Lost));
        assert_eq!(of(504, "upstream request timeout"), Some(Failure::TimedOut));
        for status in [502, 503] {
            assert_eq!(of(status, &format!("{RESET}protocol error")), Some(Failure::Unreadable));
        }
    }

    #[test]
    fn a_nodes_words_are_an_answer() {
        assert_eq!(of(503, "busy"), None);
        assert_eq!(of(200, "no healthy upstream"), None);
        let headers = [("content-type".to_owned(), "application/json".to_owned())].into();
        let body = b"no healthy upstream".to_vec();
        assert_eq!(Failure::of(&Response { status: 503, headers, body }), None);
    }
}
