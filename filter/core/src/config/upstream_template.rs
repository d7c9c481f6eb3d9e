use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use crate::node::Node;
use crate::wildcard;

/// The name of a node's own upstream cluster in Envoy, built from what the cluster reports about the node.
///
/// The placeholders are `{name}` (`node.name`), `{id}` (the node's id), `{attr.X}` (`node.attr.X`), and `{host}`,
/// `{ip}` and `{http_port}` from its `http.publish_address`. All other text is literal.
///
/// A node chooses what it reports, and so could choose any cluster that Envoy has. [`only`](Self::only) limits that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Nodes", into = "Nodes")]
pub struct UpstreamTemplate {
    parts: Vec<Part>,
    /// The upstreams that override the template, by node name or id.
    exceptions: BTreeMap<String, String>,
    /// The patterns of which a built name must match one. Any name is allowed if there are none.
    only: Vec<String>,
}

/// The configuration of a template: the text, exceptions by node name or id, and patterns of the names that the template
/// may produce.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nodes {
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

/// The maximum length of a built name, in bytes. Istio's names take some 330 at most, and metrics contain the name.
const MAX_NAME_BYTES: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Name,
    Id,
    Host,
    Ip,
    HttpPort,
    Attribute(String),
}

impl Part {
    fn text(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self::Text(text.to_owned()))
    }

    fn placeholder(name: &str) -> Option<Self> {
        Some(match name {
            "name" => Self::Name,
            "id" => Self::Id,
            "host" => Self::Host,
            "ip" => Self::Ip,
            "http_port" => Self::HttpPort,
            _ => Self::Attribute(name.strip_prefix("attr.").filter(|name| !name.is_empty())?.to_owned()),
        })
    }

    /// Returns this part's text for a node, or `None` if the node does not report it.
    fn of<'a>(&'a self, node: &'a Node) -> Option<&'a str> {
        let http = node.http.as_ref();
        match self {
            Self::Text(text) => Some(text),
            Self::Name => Some(&node.name),
            Self::Id => Some(&node.id),
            Self::Host => Some(&http?.host),
            Self::Ip => Some(&http?.ip),
            Self::HttpPort => Some(&http?.port),
            Self::Attribute(name) => node.attributes.get(name).map(String::as_str),
        }
    }
}

impl fmt::Display for UpstreamTemplate {
    /// Writes the template as it was configured.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Text(text) => to.write_str(text),
            Part::Name => to.write_str("{name}"),
            Part::Id => to.write_str("{id}"),
            Part::Host => to.write_str("{host}"),
            Part::Ip => to.write_str("{ip}"),
            Part::HttpPort => to.write_str("{http_port}"),
            Part::Attribute(name) => write!(to, "{{attr.{name}}}"),
        })
    }
}

/// The error for a text that is not a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a name with placeholders {{name}}, {{id}}, {{host}}, {{ip}}, {{http_port}} or {{attr.X}}, found {0:?}")]
pub struct TemplateError(String);

impl UpstreamTemplate {
    /// Parses a template such as `es-{name}`. Fails if it is malformed or has no placeholder.
    pub fn new(text: &str, exceptions: BTreeMap<String, String>) -> Result<Self, TemplateError> {
        let error = || TemplateError(text.to_owned());
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (placeholder, after) = after.split_once('}').ok_or_else(error)?;
            parts.extend(Part::text(before));
            parts.push(Part::placeholder(placeholder).ok_or_else(error)?);
            rest = after;
        }
        parts.extend(Part::text(rest));
        // Without a placeholder all nodes would have the same upstream.
        let has_placeholder = parts.iter().any(|part| !matches!(part, Part::Text(_)));
        match has_placeholder && !rest.contains('}') {
            true => Ok(Self { parts, exceptions, only: Vec::new() }),
            false => Err(error()),
        }
    }

    /// Returns whether the template needs the nodes' HTTP addresses, which the cluster state does not contain.
    pub fn needs_http(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Host | Part::Ip | Part::HttpPort))
    }

    /// Limits the names that the template produces to those that match one of these patterns, in which `*` matches any
    /// characters, or none. Exceptions need not match. Without patterns, any name is allowed.
    pub fn only(mut self, patterns: Vec<String>) -> Self {
        self.only = patterns;
        self
    }

    /// Returns the upstream of a node. Returns `None` if the node does not report something that the template needs, or
    /// if the resulting name is not allowed.
    pub fn upstream(&self, node: &Node) -> Option<String> {
        if let Some(upstream) = self.exceptions.get(&node.name).or_else(|| self.exceptions.get(&node.id)) {
            return Some(upstream.clone());
        }
        let mut upstream = String::new();
        for part in &self.parts {
            // Writing to a string cannot fail.
            let _ = upstream.write_str(part.of(node)?);
        }
        self.may_be(&upstream).then_some(upstream)
    }

    fn may_be(&self, upstream: &str) -> bool {
        let is_name = !upstream.is_empty() && upstream.len() <= MAX_NAME_BYTES && !upstream.contains(char::is_control);
        is_name && (self.only.is_empty() || self.only.iter().any(|pattern| wildcard::fits(pattern, upstream)))
    }
}

impl TryFrom<Nodes> for UpstreamTemplate {
    type Error = String;

    fn try_from(nodes: Nodes) -> Result<Self, String> {
        let template =
            Self::new(&nodes.upstream, nodes.upstreams).map_err(|error| format!("`upstream` takes {error}"))?;
        if nodes.only.iter().any(String::is_empty) {
            return Err(
                "`only` takes names of Envoy clusters, in which `*` stands for any characters, found \"\"".into()
            );
        }
        Ok(template.only(nodes.only))
    }
}

impl From<UpstreamTemplate> for Nodes {
    fn from(template: UpstreamTemplate) -> Self {
        Self { upstream: template.to_string(), upstreams: template.exceptions, only: template.only }
    }
}

impl Default for UpstreamTemplate {
    /// Returns the template `{name}`: each upstream has the name of its node.
    fn default() -> Self {
        Self { parts: vec![Part::Name], exceptions: BTreeMap::new(), only: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::HttpAddress;

    fn node() -> Node {
        Node {
            id: "xyz".into(),
            ephemeral_id: String::new(),
            name: "hot-0".into(),
            version: None,
            runs_pipelines: None,
            attributes: BTreeMap::from([("zone".into(), "a".into())]),
            http: HttpAddress::read("es.example/10.0.0.7:9201"),
            present: true,
        }
    }

    fn upstream(template: &str, node: &Node) -> Option<String> {
        UpstreamTemplate::new(template, BTreeMap::new()).unwrap().upstream(node)
    }

    #[test]
    fn fills_in_the_properties_of_a_node() {
        let node = node();
        assert_eq!(upstream("{name}", &node).as_deref(), Some("hot-0"));
        assert_eq!(upstream("outbound|9200||{name}.es.svc", &node).as_deref(), Some("outbound|9200||hot-0.es.svc"));
        assert_eq!(upstream("{attr.zone}-{id}", &node).as_deref(), Some("a-xyz"));
        assert_eq!(upstream("{host}:{http_port} {ip}", &node).as_deref(), Some("es.example:9201 10.0.0.7"));
        assert_eq!(upstream("{attr.rack}", &node), None);
        assert_eq!(upstream("{ip}", &Node { http: None, ..node }), None);
    }

    #[test]
    fn needs_addresses_only_for_address_placeholders() {
        for (template, needed) in
            [("{name}", false), ("{id}{attr.ip}", false), ("{host}", true), ("{ip}", true), ("{http_port}x", true)]
        {
            assert_eq!(UpstreamTemplate::new(template, BTreeMap::new()).unwrap().needs_http(), needed, "{template}");
        }
    }

    #[test]
    fn exceptions_match_a_name_or_an_id() {
        for key in ["hot-0", "xyz"] {
            let exceptions = BTreeMap::from([(key.to_owned(), "special".to_owned())]);
            let template = UpstreamTemplate::new("{ip}", exceptions).unwrap();
            assert_eq!(template.upstream(&Node { http: None, ..node() }).as_deref(), Some("special"));
        }
    }

    #[test]
    fn a_node_cannot_choose_an_upstream_outside_the_patterns() {
        let patterns = ["hot-*", "es-?", "outbound|9200||*.es.svc"].map(str::to_owned).to_vec();
        let template = UpstreamTemplate::default().only(patterns);
        let upstream = |name: &str| template.upstream(&Node { name: name.to_owned(), ..node() });
        for name in ["hot-0", "hot-", "outbound|9200||a.es.svc"] {
            assert_eq!(upstream(name).as_deref(), Some(name));
        }
        for name in ["admin", "payments", "a-hot-0", "outbound|9200||a.es.svc.evil"] {
            assert_eq!(upstream(name), None, "{name}");
        }
        let exceptions = BTreeMap::from([("xyz".to_owned(), "special".to_owned())]);
        let special = UpstreamTemplate::new("{name}", exceptions).unwrap().only(vec!["es-*".to_owned()]);
        assert_eq!(special.upstream(&node()).as_deref(), Some("special"));
    }

    #[test]
    fn rejects_invalid_upstream_names() {
        for name in ["", "a\nb", "a\u{7f}", &"n".repeat(MAX_NAME_BYTES + 1)] {
            assert_eq!(upstream("{name}", &Node { name: name.to_owned(), ..node() }), None, "{name:?}");
        }
        assert!(upstream("{name}", &Node { name: "n".repeat(MAX_NAME_BYTES), ..node() }).is_some());
    }

    #[test]
    fn rejects_a_text_that_is_not_a_template() {
        for text in ["", "es", "es-{name", "es-{port}", "{attr.}", "{name}}", "{}"] {
            assert_eq!(UpstreamTemplate::new(text, BTreeMap::new()), Err(TemplateError(text.to_owned())));
        }
    }
}
