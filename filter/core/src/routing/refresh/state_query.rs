use std::fmt;

use super::aliases::Aliases;
use super::details::Details;
use super::overview::Overview;
use crate::routing::table::Version;

/// What the cluster is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateQuery {
    /// Has anything changed?
    Version,
    /// What is there?
    Overview,
    /// How is the filter switched?
    Settings,
    /// Where do the nodes take HTTP requests?
    Http,
    /// Which index does each alias write to?
    Aliases,
    /// Where are the shards of these indices, and how are documents spread over them?
    Details(Vec<String>),
}

/// A look at the cluster came to nothing; the next one follows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefreshError {
    /// The cluster answered, but not with 200.
    #[error("{query}: the cluster answered with status {status}")]
    Status {
        /// What was asked.
        query: StateQuery,
        /// What came back.
        status: u16,
    },
    /// No answer came.
    #[error("{query}: no answer")]
    Unanswered {
        /// What was asked.
        query: StateQuery,
    },
    /// The answer does not have the form that is expected of a cluster.
    #[error("{query}: {problem}")]
    Form {
        /// What was asked.
        query: StateQuery,
        /// What is wrong, and where.
        problem: String,
    },
}

impl RefreshError {
    /// What was asked.
    pub fn query(&self) -> &StateQuery {
        match self {
            Self::Status { query, .. } | Self::Unanswered { query } | Self::Form { query, .. } => query,
        }
    }
}

impl StateQuery {
    /// Path and query of the `GET`.
    pub fn path(&self) -> String {
        match self {
            Self::Version => Version::PATH.to_owned(),
            Self::Overview => Overview::PATH.to_owned(),
            Self::Settings => {
                let settings =
                    ["persistent", "transient"].map(|kind| format!("{kind}.cluster.metadata.bulk_reshuffle"));
                format!("/_cluster/settings?filter_path={}", settings.join(","))
            }
            Self::Http => "/_nodes/http?filter_path=nodes.*.http.publish_address".to_owned(),
            Self::Aliases => Aliases::PATH.to_owned(),
            Self::Details(names) => Details::path(names.iter().map(String::as_str)),
        }
    }
}

impl fmt::Display for StateQuery {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Version => "version",
            Self::Overview => "overview",
            Self::Settings => "settings",
            Self::Http => "nodes",
            Self::Aliases => "aliases",
            Self::Details(_) => "details of indices",
        })
    }
}
