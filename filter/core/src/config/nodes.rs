use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::routing::UpstreamTemplate;

/// How nodes map to Envoy clusters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "NodesText", into = "NodesText")]
pub struct Nodes {
    /// Made from `upstream` (a template) and `upstreams` (exceptions, by node name or id).
    pub template: UpstreamTemplate,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodesText {
    #[serde(default = "default_template")]
    upstream: String,
    #[serde(default)]
    upstreams: BTreeMap<String, String>,
}

fn default_template() -> String {
    "{name}".to_owned()
}

impl TryFrom<NodesText> for Nodes {
    type Error = String;

    fn try_from(text: NodesText) -> Result<Self, String> {
        let template = UpstreamTemplate::new(&text.upstream, text.upstreams)
            .map_err(|error| format!("`upstream` takes {error}"))?;
        Ok(Self { template })
    }
}

impl From<Nodes> for NodesText {
    fn from(Nodes { template }: Nodes) -> Self {
        Self { upstream: template.to_string(), upstreams: template.into_exceptions() }
    }
}

impl Default for Nodes {
    fn default() -> Self {
        Self { template: UpstreamTemplate::by_name() }
    }
}
