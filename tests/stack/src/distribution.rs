//! The search servers that the stack can run.

use std::str::FromStr;

use anyhow::{Result, bail};

/// A release of a search server. To add one: a row in `tests/tools/fetch.py`, one here, and whatever is particular to
/// it in the functions below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Distribution {
    /// OpenSearch 2.19.
    #[default]
    OpenSearch2,
    /// Elasticsearch 7.10.2, the last one under the Apache licence.
    Elasticsearch7_10,
    /// Elasticsearch 8.19.
    Elasticsearch8,
}

/// Whose server it is, and what the two call their parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    OpenSearch,
    Elasticsearch,
}

/// How a node's process comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Launch {
    /// The server is started by itself.
    Direct,
    /// A launcher checks the node's files, starts the server as its child and ends with it.
    Launcher,
}

impl Distribution {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::OpenSearch2, Self::Elasticsearch7_10, Self::Elasticsearch8];

    /// The name by which `tests/tools/fetch.py` knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenSearch2 => "opensearch-2",
            Self::Elasticsearch7_10 => "elasticsearch-7.10",
            Self::Elasticsearch8 => "elasticsearch-8",
        }
    }

    pub(crate) fn product(self) -> Product {
        match self {
            Self::OpenSearch2 => Product::OpenSearch,
            Self::Elasticsearch7_10 | Self::Elasticsearch8 => Product::Elasticsearch,
        }
    }

    pub(crate) fn launch(self) -> Launch {
        match self {
            Self::OpenSearch2 | Self::Elasticsearch7_10 => Launch::Direct,
            Self::Elasticsearch8 => Launch::Launcher,
        }
    }

    /// What the server says of itself in its own start script, as system properties.
    pub(crate) fn properties(self) -> &'static [&'static str] {
        match self {
            Self::OpenSearch2 => &["-Dopensearch.bundled_jdk=false", "-Dopensearch.distribution.type=zip"],
            Self::Elasticsearch7_10 => {
                &["-Des.bundled_jdk=false", "-Des.distribution.type=zip", "-Des.distribution.flavor=oss"]
            }
            Self::Elasticsearch8 => &["-Des.distribution.type=zip"],
        }
    }

    /// The setting that lists the nodes which elect the first manager.
    pub(crate) fn initial_managers(self) -> &'static str {
        match self {
            Self::OpenSearch2 => "cluster.initial_cluster_manager_nodes",
            Self::Elasticsearch7_10 | Self::Elasticsearch8 => "cluster.initial_master_nodes",
        }
    }

    /// Settings that only this server knows.
    pub(crate) fn settings(self) -> &'static [(&'static str, bool)] {
        match self {
            Self::OpenSearch2 | Self::Elasticsearch7_10 => &[],
            Self::Elasticsearch8 => &[("xpack.security.enabled", false)],
        }
    }

    /// The heap with which a node is still at ease, in MiB.
    pub(crate) fn least_heap(self) -> u32 {
        match self {
            Self::OpenSearch2 | Self::Elasticsearch7_10 => 256,
            Self::Elasticsearch8 => 384,
        }
    }
}

impl FromStr for Distribution {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|distribution| distribution.name() == name) {
            Some(distribution) => Ok(distribution),
            None => bail!("{name} is none of {}", Self::ALL.map(Self::name).join(", ")),
        }
    }
}

impl Product {
    /// What its system properties begin with.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::OpenSearch => "opensearch",
            Self::Elasticsearch => "es",
        }
    }

    /// The name of the file with a node's settings.
    pub(crate) fn settings_file(self) -> &'static str {
        match self {
            Self::OpenSearch => "opensearch.yml",
            Self::Elasticsearch => "elasticsearch.yml",
        }
    }

    /// The server's main class.
    pub(crate) fn main_class(self) -> &'static str {
        match self {
            Self::OpenSearch => "org.opensearch.bootstrap.OpenSearch",
            Self::Elasticsearch => "org.elasticsearch.bootstrap.Elasticsearch",
        }
    }
}
