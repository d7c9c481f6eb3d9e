use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::UpstreamTemplate;

/// The mapping of nodes to Envoy clusters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "NodesText", into = "NodesText")]
pub struct Nodes {
    /// The template of the names, from `upstream` (the template), `upstreams` (exceptions, by node name or id) and
    /// `only` (patterns of the names that the template may produce).
    pub template: UpstreamTemplate,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodesText {
    #[serde(default = "default_template")]
    upstream: String,
    #[serde(default)]
    upstreams: BTreeMap<String, String>,
    #[serde(default)]
    only: Vec<String>,
}

fn default_template() -> String {
    "{name}".to_owned()
}

impl TryFrom<NodesText> for Nodes {
    type Error = String;

    fn try_from(text: NodesText) -> Result<Self, String> {
        let template = UpstreamTemplate::new(&text.upstream, text.upstreams)
            .map_err(|error| format!("`upstream` takes {error}"))?;
        if text.only.iter().any(String::is_empty) {
            return Err(
                "`only` takes names of Envoy clusters, in which `*` stands for any characters, found \"\"".into()
            );
        }
        Ok(Self { template: template.only(text.only) })
    }
}

impl From<Nodes> for NodesText {
    fn from(Nodes { template }: Nodes) -> Self {
        let upstream = template.to_string();
        let (upstreams, only) = template.into_bounds();
        Self { upstream, upstreams, only }
    }
}

impl Default for Nodes {
    fn default() -> Self {
        Self { template: UpstreamTemplate::by_name() }
    }
}
