use std::collections::BTreeMap;
use std::fmt::Write;

use super::cluster_state::Node;

/// The name of a node's own upstream cluster in Envoy, made from what the cluster state says of the node.
///
/// Placeholders: `{name}` (`node.name`), `{id}` (the node's id) and `{attr.X}` (`node.attr.X`). Anything else
/// stands for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamTemplate {
    parts: Vec<Part>,
    /// By node name or id.
    exceptions: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Name,
    Id,
    Attribute(String),
}

impl Part {
    fn text(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self::Text(text.to_owned()))
    }
}

/// The template is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a name with placeholders {{name}}, {{id}} or {{attr.X}}, found {0:?}")]
pub struct TemplateError(String);

impl UpstreamTemplate {
    /// Reads a template such as `es-{name}`.
    pub fn new(text: &str, exceptions: BTreeMap<String, String>) -> Result<Self, TemplateError> {
        let error = || TemplateError(text.to_owned());
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (placeholder, after) = after.split_once('}').ok_or_else(error)?;
            parts.extend(Part::text(before));
            parts.push(match placeholder {
                "name" => Part::Name,
                "id" => Part::Id,
                _ => match placeholder.strip_prefix("attr.") {
                    Some(name) if !name.is_empty() => Part::Attribute(name.to_owned()),
                    _ => return Err(error()),
                },
            });
            rest = after;
        }
        parts.extend(Part::text(rest));
        // Without a placeholder all nodes would have the same upstream.
        let has_placeholder = parts.iter().any(|part| !matches!(part, Part::Text(_)));
        match has_placeholder && !rest.contains('}') {
            true => Ok(Self { parts, exceptions }),
            false => Err(error()),
        }
    }

    /// `{name}`: each upstream is called like its node.
    pub fn by_name() -> Self {
        Self { parts: vec![Part::Name], exceptions: BTreeMap::new() }
    }

    /// The upstream of a node; `None` if the node lacks an attribute that the template needs.
    pub fn upstream(&self, id: &str, node: &Node) -> Option<String> {
        if let Some(upstream) = self.exceptions.get(&node.name).or_else(|| self.exceptions.get(id)) {
            return Some(upstream.clone());
        }
        let mut upstream = String::new();
        for part in &self.parts {
            let text = match part {
                Part::Text(text) => text,
                Part::Name => &node.name,
                Part::Id => id,
                Part::Attribute(name) => node.attributes.get(name)?,
            };
            // Writing to a string cannot fail.
            let _ = upstream.write_str(text);
        }
        Some(upstream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        Node { name: "hot-0".into(), attributes: BTreeMap::from([("zone".into(), "a".into())]) }
    }

    fn upstream(template: &str) -> Option<String> {
        UpstreamTemplate::new(template, BTreeMap::new()).unwrap().upstream("xyz", &node())
    }

    #[test]
    fn fills_in_what_the_node_says_of_itself() {
        assert_eq!(upstream("{name}").as_deref(), Some("hot-0"));
        assert_eq!(upstream("outbound|9200||{name}.es.svc").as_deref(), Some("outbound|9200||hot-0.es.svc"));
        assert_eq!(upstream("{attr.zone}-{id}").as_deref(), Some("a-xyz"));
        assert_eq!(upstream("{attr.rack}"), None);
    }

    #[test]
    fn exceptions_go_by_name_or_id() {
        for key in ["hot-0", "xyz"] {
            let exceptions = BTreeMap::from([(key.to_owned(), "special".to_owned())]);
            let template = UpstreamTemplate::new("{name}", exceptions).unwrap();
            assert_eq!(template.upstream("xyz", &node()).as_deref(), Some("special"));
        }
    }

    #[test]
    fn refuses_what_is_no_template() {
        for text in ["", "es", "es-{name", "es-{port}", "{attr.}", "{name}}", "{}"] {
            assert_eq!(UpstreamTemplate::new(text, BTreeMap::new()), Err(TemplateError(text.to_owned())));
        }
    }
}
