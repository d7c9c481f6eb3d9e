use std::fmt;

use super::aliases::Aliases;
use super::details::Details;
use super::overview::Overview;
use crate::routing::pipelines::Definitions;
use crate::routing::table::Version;

/// A query to the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateQuery {
    /// The version of the state.
    Version,
    /// The overview of indices, aliases and nodes.
    Overview,
    /// The run-time settings of the filter.
    Settings,
    /// The releases, the roles and the HTTP addresses of the nodes. The cluster asks each node, and leaves out those
    /// that do not answer within a second.
    Nodes,
    /// The write index of each alias.
    Aliases,
    /// The location of these indices' shards, and the rules by which documents are assigned to them.
    Details(Vec<String>),
    /// The definitions of the ingest pipelines.
    Pipelines,
}

/// The error of a failed poll. The next poll follows as usual.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{query}: {problem}")]
pub struct RefreshError {
    /// The query that failed.
    pub query: StateQuery,
    /// What is wrong, and where: the status of the cluster's answer, its format, or that there is none.
    pub problem: String,
}

impl StateQuery {
    /// Returns the path and query string of the `GET`.
    pub fn path(&self) -> String {
        match self {
            Self::Version => Version::PATH.to_owned(),
            Self::Overview => Overview::PATH.to_owned(),
            Self::Settings => {
                // Other names show misspellings of ours.
                let settings = ["persistent", "transient"].map(|kind| format!("{kind}.cluster.metadata.bulk*"));
                format!("/_cluster/settings?filter_path={}", settings.join(","))
            }
            Self::Nodes => {
                let fields = ["version", "roles", "http.publish_address"].map(|field| format!("nodes.*.{field}"));
                format!("/_nodes/http?timeout=1s&filter_path={}", fields.join(","))
            }
            Self::Aliases => Aliases::PATH.to_owned(),
            Self::Details(names) => Details::path(names.iter().map(String::as_str)),
            Self::Pipelines => Definitions::PATH.to_owned(),
        }
    }
}

impl fmt::Display for StateQuery {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Version => "version",
            Self::Overview => "overview",
            Self::Settings => "settings",
            Self::Nodes => "nodes",
            Self::Aliases => "aliases",
            Self::Details(_) => "details of indices",
            Self::Pipelines => "pipelines",
        })
    }
}
