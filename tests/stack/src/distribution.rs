//! The search servers that the stack can run.

use std::str::FromStr;

use anyhow::{Result, bail};

/// A release of a search server. To add one, add a row to `tests/tools/fetch.py`, a variant here, and the release's
/// specifics to the functions below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Distribution {
    /// Elasticsearch 7.10.2, the last release under the Apache licence.
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

/// The names of a product's files and classes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product {
    /// The prefix of the server's system properties.
    pub(crate) prefix: &'static str,
    /// The name of a node's settings file.
    pub(crate) settings_file: &'static str,
    pub(crate) main_class: &'static str,
}

const OPENSEARCH: Product = Product {
    prefix: "opensearch",
    settings_file: "opensearch.yml",
    main_class: "org.opensearch.bootstrap.OpenSearch",
};

const ELASTICSEARCH: Product = Product {
    prefix: "es",
    settings_file: "elasticsearch.yml",
    main_class: "org.elasticsearch.bootstrap.Elasticsearch",
};

/// The way to start a node's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Launch {
    /// The command starts the server itself.
    Direct,
    /// A launcher checks the node's files, starts the server as its child and ends with the server.
    Launcher,
    /// The same, with a launcher that runs the checks in a separate process.
    PreparingLauncher,
}

impl Distribution {
    /// All releases, in order for each product.
    pub const ALL: [Self; 7] = [
        Self::Elasticsearch7_10,
        Self::Elasticsearch7_17,
        Self::Elasticsearch8,
        Self::Elasticsearch9,
        Self::OpenSearch1,
        Self::OpenSearch2,
        Self::OpenSearch3,
    ];

    /// Returns the name in `tests/tools/fetch.py`.
    pub fn name(self) -> &'static str {
        self.names().0
    }

    /// Returns the name for people.
    pub fn title(self) -> &'static str {
        self.names().1
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Elasticsearch7_10 => ("elasticsearch-7.10", "Elasticsearch 7.10"),
            Self::Elasticsearch7_17 => ("elasticsearch-7.17", "Elasticsearch 7.17"),
            Self::Elasticsearch8 => ("elasticsearch-8", "Elasticsearch 8.19"),
            Self::Elasticsearch9 => ("elasticsearch-9", "Elasticsearch 9.5"),
            Self::OpenSearch1 => ("opensearch-1", "OpenSearch 1.3"),
            Self::OpenSearch2 => ("opensearch-2", "OpenSearch 2.19"),
            Self::OpenSearch3 => ("opensearch-3", "OpenSearch 3.8"),
        }
    }

    /// Returns the name in `tests/tools/fetch.py` of the same release with its security plug-in.
    pub(crate) fn secured_name(self) -> Result<&'static str> {
        match self {
            Self::OpenSearch2 => Ok("opensearch-2-secured"),
            _ => bail!("there is no security plug-in for {}: use {}", self.title(), Self::OpenSearch2.title()),
        }
    }

    pub(crate) fn product(self) -> Product {
        match self {
            Self::OpenSearch1 | Self::OpenSearch2 | Self::OpenSearch3 => OPENSEARCH,
            _ => ELASTICSEARCH,
        }
    }

    pub(crate) fn launch(self) -> Launch {
        match self {
            Self::Elasticsearch8 => Launch::Launcher,
            Self::Elasticsearch9 => Launch::PreparingLauncher,
            _ => Launch::Direct,
        }
    }

    /// Returns the system properties of the server's own start script, and other JVM flags that the server needs.
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

    /// Returns the setting that lists the nodes of the first manager election.
    pub(crate) fn initial_managers(self) -> &'static str {
        match self {
            Self::OpenSearch2 | Self::OpenSearch3 => "cluster.initial_cluster_manager_nodes",
            _ => "cluster.initial_master_nodes",
        }
    }

    /// Returns settings that only this server has.
    pub(crate) fn settings(self) -> &'static [(&'static str, bool)] {
        match self {
            Self::Elasticsearch7_17 | Self::Elasticsearch8 | Self::Elasticsearch9 => {
                &[("xpack.security.enabled", false)]
            }
            _ => &[],
        }
    }

    /// Returns the path, in the server's folder, of the agent that replaces Java's removed security manager.
    pub(crate) fn agent(self) -> Option<&'static str> {
        (self == Self::OpenSearch3).then_some("agent/opensearch-agent.jar")
    }

    /// Returns the smallest sufficient heap of a node, in MiB.
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
            None => bail!("unknown search server {name}: use one of {}", Self::ALL.map(Self::name).join(", ")),
        }
    }
}
