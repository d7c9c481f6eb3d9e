//! The search servers that the stack can run.

use std::str::FromStr;

use anyhow::{Result, bail};

/// A release of a search server. To add one: a row in `tests/tools/fetch.py`, one here, and whatever is particular to
/// it in the functions below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Distribution {
    /// Elasticsearch 7.10.2, the last one under the Apache licence.
    Elasticsearch7_10,
    /// Elasticsearch 7.17.
    Elasticsearch7_17,
    /// Elasticsearch 8.19.
    Elasticsearch8,
    /// Elasticsearch 9.5.
    Elasticsearch9,
    /// OpenSearch 1.3.
    OpenSearch1,
    /// OpenSearch 2.19.
    #[default]
    OpenSearch2,
    /// OpenSearch 3.8.
    OpenSearch3,
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
    /// The same, with a launcher that leaves the checking to one more process.
    PreparingLauncher,
}

impl Distribution {
    /// All of them, each product's in the order of their releases.
    pub const ALL: [Self; 7] = [
        Self::Elasticsearch7_10,
        Self::Elasticsearch7_17,
        Self::Elasticsearch8,
        Self::Elasticsearch9,
        Self::OpenSearch1,
        Self::OpenSearch2,
        Self::OpenSearch3,
    ];

    /// The name by which `tests/tools/fetch.py` knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Elasticsearch7_10 => "elasticsearch-7.10",
            Self::Elasticsearch7_17 => "elasticsearch-7.17",
            Self::Elasticsearch8 => "elasticsearch-8",
            Self::Elasticsearch9 => "elasticsearch-9",
            Self::OpenSearch1 => "opensearch-1",
            Self::OpenSearch2 => "opensearch-2",
            Self::OpenSearch3 => "opensearch-3",
        }
    }

    /// What people call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Elasticsearch7_10 => "Elasticsearch 7.10",
            Self::Elasticsearch7_17 => "Elasticsearch 7.17",
            Self::Elasticsearch8 => "Elasticsearch 8.19",
            Self::Elasticsearch9 => "Elasticsearch 9.5",
            Self::OpenSearch1 => "OpenSearch 1.3",
            Self::OpenSearch2 => "OpenSearch 2.19",
            Self::OpenSearch3 => "OpenSearch 3.8",
        }
    }

    pub(crate) fn product(self) -> Product {
        match self {
            Self::OpenSearch1 | Self::OpenSearch2 | Self::OpenSearch3 => Product::OpenSearch,
            _ => Product::Elasticsearch,
        }
    }

    pub(crate) fn launch(self) -> Launch {
        match self {
            Self::Elasticsearch8 => Launch::Launcher,
            Self::Elasticsearch9 => Launch::PreparingLauncher,
            _ => Launch::Direct,
        }
    }

    /// What the server says of itself in its own start script, as system properties, and what else its JVM needs.
    pub(crate) fn flags(self) -> &'static [&'static str] {
        match self {
            Self::OpenSearch1 | Self::OpenSearch2 => &[
                "-Djava.security.manager=allow",
                "-Dopensearch.bundled_jdk=false",
                "-Dopensearch.distribution.type=zip",
            ],
            Self::OpenSearch3 => &[
                "-Dopensearch.bundled_jdk=false",
                "-Dopensearch.distribution.type=zip",
                "--add-opens=java.base/java.nio=ALL-UNNAMED",
            ],
            Self::Elasticsearch7_10 => &[
                "-Djava.security.manager=allow",
                "-Des.bundled_jdk=false",
                "-Des.distribution.type=zip",
                "-Des.distribution.flavor=oss",
            ],
            Self::Elasticsearch7_17 => &[
                "-Djava.security.manager=allow",
                "-Des.bundled_jdk=false",
                "-Des.distribution.type=zip",
                "-Des.distribution.flavor=default",
            ],
            Self::Elasticsearch8 => &["-Des.distribution.type=zip"],
            Self::Elasticsearch9 => &[],
        }
    }

    /// The setting that lists the nodes which elect the first manager.
    pub(crate) fn initial_managers(self) -> &'static str {
        match self {
            Self::OpenSearch2 | Self::OpenSearch3 => "cluster.initial_cluster_manager_nodes",
            _ => "cluster.initial_master_nodes",
        }
    }

    /// Settings that only this server knows.
    pub(crate) fn settings(self) -> &'static [(&'static str, bool)] {
        match self {
            Self::Elasticsearch7_17 | Self::Elasticsearch8 | Self::Elasticsearch9 => {
                &[("xpack.security.enabled", false)]
            }
            _ => &[],
        }
    }

    /// In the server's folder, what guards the server in place of the security manager that Java has lost.
    pub(crate) fn agent(self) -> Option<&'static str> {
        (self == Self::OpenSearch3).then_some("agent/opensearch-agent.jar")
    }

    /// The heap with which a node is still at ease, in MiB.
    pub(crate) fn least_heap(self) -> u32 {
        match self {
            Self::Elasticsearch8 | Self::Elasticsearch9 => 384,
            _ => 256,
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
