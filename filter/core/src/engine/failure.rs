use super::Response;

/// A call that no node answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It surely never reached a node: it may be sent again.
    NotSent,
    /// A node may have carried it out.
    Unknown {
        /// 503 or 504, for the items.
        status: u16,
        /// For whoever reads the items.
        reason: &'static str,
    },
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
    /// No readable answer: the connection broke in the middle, or the answer was too large.
    pub const UNREADABLE: Self =
        Self::Unknown { status: 503, reason: "the node's answer was lost or too large to read" };

    /// The answer is not one to the batch that was sent.
    pub const MISMATCH: Self =
        Self::Unknown { status: 503, reason: "the node's answer does not fit the operations that it was sent" };

    /// Tells Envoy's own words, which come in the form of a response, from a node's.
    pub fn of(response: &Response) -> Option<Self> {
        let is_plain = |(name, value): &(String, String)| name == "content-type" && value.starts_with("text/plain");
        if !matches!(response.status, 503 | 504) || !response.headers.iter().any(is_plain) {
            return None;
        }
        let text = String::from_utf8_lossy(response.body.get(..300).unwrap_or(&response.body));
        if NOT_SENT.iter().any(|words| text.contains(words)) {
            return Some(Self::NotSent);
        }
        if text.starts_with("upstream connect error or disconnect/reset before headers") {
            return Some(Self::Unknown { status: 503, reason: "the connection to the node was lost" });
        }
        text.starts_with("upstream request timeout")
            .then_some(Self::Unknown { status: 504, reason: "the node did not answer in time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Option<Failure> {
        let headers = vec![("content-type".to_owned(), "text/plain".to_owned())];
        Failure::of(&Response { status, headers, body: body.as_bytes().to_vec() })
    }

    #[test]
    fn envoys_words_say_whether_a_call_was_sent() {
        const RESET: &str = "upstream connect error or disconnect/reset before headers. reset reason: ";
        let refused = format!("{RESET}remote connection failure, transport failure reason: Connection refused");
        assert_eq!(of(503, &refused), Some(Failure::NotSent));
        assert_eq!(of(503, &format!("{RESET}overflow")), Some(Failure::NotSent));
        assert_eq!(of(503, "no healthy upstream"), Some(Failure::NotSent));
        assert!(matches!(
            of(503, &format!("{RESET}connection termination")),
            Some(Failure::Unknown { status: 503, .. })
        ));
        assert!(matches!(of(504, "upstream request timeout"), Some(Failure::Unknown { status: 504, .. })));
    }

    #[test]
    fn a_nodes_words_are_an_answer() {
        assert_eq!(of(503, "busy"), None);
        assert_eq!(of(200, "no healthy upstream"), None);
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let body = b"no healthy upstream".to_vec();
        assert_eq!(Failure::of(&Response { status: 503, headers, body }), None);
    }
}
