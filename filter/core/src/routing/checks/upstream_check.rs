use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

reasons! {
    /// What the check of an upstream has found.
    #[derive(Serialize, Deserialize)]
    CheckResult;
    Right = "right", "The upstream leads to its node.";
    OtherNode = "other_node", "The upstream leads to another node of the cluster.";
    OtherCluster = "other_cluster", "The upstream leads to a node that the cluster does not have.";
    NoUpstream = "no_upstream", "Envoy has no cluster of this name or, with `nodes.header`, no host with this address.";
    Unreachable = "unreachable", "Envoy cannot connect to a healthy host of the upstream.";
    NoAnswer = "no_answer", "The upstream gives no complete answer in time.";
    Forbidden = "forbidden", "The upstream does not let the filter ask. Check `credentials`.";
    Unreadable = "unreadable", "The upstream's answer is not that of a node of Elasticsearch or OpenSearch.";
    SeveralClusters = "several_clusters", "The upstream of the polls has just answered for another cluster. Its hosts may belong to several.";
}

/// The reason why a query has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// Envoy has no cluster of this name, so nothing was sent.
    NoUpstream,
    /// Envoy could not connect, so nothing was sent.
    Unreachable,
    /// The query may have arrived.
    NoAnswer,
}

/// The outcome of the check of one upstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamCheck {
    /// The outcome.
    pub result: CheckResult,
    /// The name of the node that has answered, if it is not the right one.
    pub found: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    nodes: BTreeMap<String, AnsweringNode>,
}

#[derive(Deserialize)]
struct AnsweringNode {
    name: String,
}

/// The maximum number of characters of a node's name that are kept.
const MAX_NAME: usize = 256;

impl UpstreamCheck {
    /// The path and query string of the `GET` that asks a node for its id and name.
    pub const PATH: &str = "/_nodes/_local?filter_path=nodes.*.name";

    /// The maximum number of bytes of an answer. A node's is about a hundred bytes long.
    pub const MAX_ANSWER: usize = 16 << 10;

    /// Reads an answer. `nodes` are the ids of the nodes that the upstream is for, and `is_known` returns whether the
    /// cluster has a node with an id.
    pub fn read(status: u16, body: &[u8], nodes: &[String], is_known: impl Fn(&str) -> bool) -> Self {
        let (result, found) = match status {
            200 => match serde_json::from_slice(body).ok().and_then(Answer::node) {
                Some((id, _)) if nodes.contains(&id) => (CheckResult::Right, None),
                Some((id, name)) if is_known(&id) => (CheckResult::OtherNode, Some(name)),
                Some((_, name)) => (CheckResult::OtherCluster, Some(name)),
                None => (CheckResult::Unreadable, None),
            },
            401 | 403 => (CheckResult::Forbidden, None),
            _ => (CheckResult::Unreadable, None),
        };
        Self { result, found }
    }

    /// Returns whether operations must not go to the upstream.
    pub fn is_wrong(&self) -> bool {
        matches!(self.result, CheckResult::OtherNode | CheckResult::OtherCluster)
    }

    /// Returns the message for the log about an upstream of this name, and of this address in an Envoy cluster with all
    /// nodes.
    pub fn message(&self, upstream: &str, address: Option<&str>) -> String {
        let at = address.map(|address| format!(" at {address}")).unwrap_or_default();
        let found = self
            .found
            .as_ref()
            .map(|found| format!(" {found:?} answers. Operations for its node go to the coordinator."));
        let is_fallback = self.is_wrong() || self.result == CheckResult::Unreachable;
        let fallback = address
            .filter(|_| is_fallback)
            .map(|address| format!(" Envoy chooses another host if its cluster has no healthy one at {address}."));
        let more = [found, fallback].map(Option::unwrap_or_default).concat();
        format!("upstream {:?}: {}{more}", format!("{upstream}{at}"), self.result.text())
    }

    /// Returns whether there is anything that an operator should repair.
    pub fn is_fault(&self) -> bool {
        self.result != CheckResult::Right
    }
}

impl From<CheckResult> for UpstreamCheck {
    fn from(result: CheckResult) -> Self {
        Self { result, found: None }
    }
}

impl From<Silence> for UpstreamCheck {
    fn from(silence: Silence) -> Self {
        match silence {
            Silence::NoUpstream => CheckResult::NoUpstream,
            Silence::Unreachable => CheckResult::Unreachable,
            Silence::NoAnswer => CheckResult::NoAnswer,
        }
        .into()
    }
}

impl Answer {
    /// Returns the id and the name of the only node.
    fn node(self) -> Option<(String, String)> {
        let mut nodes = self.nodes.into_iter();
        let (id, AnsweringNode { name }) = nodes.next().filter(|_| nodes.next().is_none())?;
        Some((id, name.chars().take(MAX_NAME).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: u16, body: &str) -> (CheckResult, Option<String>) {
        let check = UpstreamCheck::read(status, body.as_bytes(), &["a".to_owned(), "b".to_owned()], |id| id == "c");
        (check.result, check.found)
    }

    #[test]
    fn an_upstream_is_right_if_one_of_its_nodes_answers() {
        for id in ["a", "b"] {
            assert_eq!(read(200, &format!(r#"{{"nodes":{{"{id}":{{"name":"es-0"}}}}}}"#)), (CheckResult::Right, None));
        }
    }

    #[test]
    fn an_upstream_that_leads_elsewhere_is_wrong() {
        let other = |id| read(200, &format!(r#"{{"nodes":{{"{id}":{{"name":"es-2"}}}}}}"#));
        assert_eq!(other("c"), (CheckResult::OtherNode, Some("es-2".to_owned())));
        assert_eq!(other("z"), (CheckResult::OtherCluster, Some("es-2".to_owned())));
        let is_wrong = |result: CheckResult| UpstreamCheck::from(result).is_wrong();
        let wrong: Vec<_> = CheckResult::all().filter(|result| is_wrong(*result)).map(CheckResult::name).collect();
        assert_eq!(wrong, ["other_node", "other_cluster"]);
    }

    #[test]
    fn an_answer_that_is_not_a_nodes_proves_nothing() {
        for status in [401, 403] {
            assert_eq!(read(status, "{}").0, CheckResult::Forbidden);
        }
        let two = r#"{"nodes":{"a":{"name":"es-0"},"b":{"name":"es-1"}}}"#;
        for (status, body) in [(404, "{}"), (200, "<html>"), (200, "{}"), (200, r#"{"nodes":{}}"#), (200, two)] {
            assert_eq!(read(status, body).0, CheckResult::Unreadable, "{status} {body}");
        }
    }

    #[test]
    fn the_message_says_that_envoy_may_have_chosen_another_host() {
        let message = |check: UpstreamCheck, address| check.message("es-0", address);
        let other = || UpstreamCheck { result: CheckResult::OtherNode, found: Some("es-2".to_owned()) };
        assert!(message(other(), None).ends_with("Operations for its node go to the coordinator."));
        let fallback = "Envoy chooses another host if its cluster has no healthy one at 10.0.0.1:9200.";
        for check in [other(), CheckResult::Unreachable.into()] {
            let message = message(check, Some("10.0.0.1:9200"));
            assert!(message.starts_with("upstream \"es-0 at 10.0.0.1:9200\": "), "{message}");
            assert!(message.ends_with(fallback), "{message}");
        }
        assert!(!message(CheckResult::Forbidden.into(), Some("10.0.0.1:9200")).contains("chooses"));
    }

    #[test]
    fn a_long_name_is_cut() {
        let (_, found) = read(200, &format!(r#"{{"nodes":{{"z":{{"name":"a{}"}}}}}}"#, "ü".repeat(MAX_NAME)));
        assert_eq!(found.unwrap().chars().count(), MAX_NAME);
    }
}
