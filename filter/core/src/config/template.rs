use std::fmt::{self, Write};

use crate::node::Node;

/// A text that is filled in with what the cluster reports about a node.
///
/// The placeholders are `{name}` (`node.name`), `{id}` (the node's id), `{attr.X}` (`node.attr.X`), and `{address}`,
/// `{host}`, `{ip}` and `{http_port}` from its `http.publish_address`. All other text is literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Name,
    Id,
    Address,
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
            "address" => Self::Address,
            "host" => Self::Host,
            "ip" => Self::Ip,
            "http_port" => Self::HttpPort,
            _ => Self::Attribute(name.strip_prefix("attr.").filter(|name| !name.is_empty())?.to_owned()),
        })
    }

    /// Writes this part's text for a node. Returns `None` if the node does not report it.
    fn write(&self, node: &Node, to: &mut String) -> Option<()> {
        let http = node.http.as_ref();
        to.push_str(match self {
            Self::Text(text) => text,
            Self::Name => &node.name,
            Self::Id => &node.id,
            Self::Address => return write!(to, "{}", http?).ok(),
            Self::Host => &http?.host,
            Self::Ip => &http?.ip,
            Self::HttpPort => &http?.port,
            Self::Attribute(name) => node.attributes.get(name)?,
        });
        Some(())
    }
}

impl fmt::Display for Template {
    /// Writes the template as it was configured.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Text(text) => to.write_str(text),
            Part::Name => to.write_str("{name}"),
            Part::Id => to.write_str("{id}"),
            Part::Address => to.write_str("{address}"),
            Part::Host => to.write_str("{host}"),
            Part::Ip => to.write_str("{ip}"),
            Part::HttpPort => to.write_str("{http_port}"),
            Part::Attribute(name) => write!(to, "{{attr.{name}}}"),
        })
    }
}

impl Template {
    /// Parses a template such as `es-{name}`. Returns what was expected if it is malformed or has no placeholder: without
    /// one, all nodes would be the same.
    pub fn new(text: &str) -> Result<Self, String> {
        Self::parse(text).ok_or_else(|| {
            format!(
                "a text with placeholders {{name}}, {{id}}, {{address}}, {{host}}, {{ip}}, {{http_port}} or \
                 {{attr.X}}, found {text:?}"
            )
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (placeholder, after) = after.split_once('}')?;
            parts.extend(Part::text(before));
            parts.push(Part::placeholder(placeholder)?);
            rest = after;
        }
        parts.extend(Part::text(rest));
        let has_placeholder = parts.iter().any(|part| !matches!(part, Part::Text(_)));
        (has_placeholder && !rest.contains('}')).then_some(Self(parts))
    }

    /// Returns the template `{name}`.
    pub fn of_names() -> Self {
        Self(vec![Part::Name])
    }

    /// Returns whether the template needs the nodes' HTTP addresses, which the cluster state does not contain.
    pub fn needs_http(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Address | Part::Host | Part::Ip | Part::HttpPort))
    }

    /// Returns the text for a node; `None` if the node does not report something that the template needs.
    pub fn fill(&self, node: &Node) -> Option<String> {
        let mut text = String::new();
        self.0.iter().try_for_each(|part| part.write(node, &mut text))?;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::node;
    use crate::node::HttpAddress;

    fn filled(template: &str, node: &Node) -> Option<String> {
        Template::new(template).unwrap().fill(node)
    }

    #[test]
    fn fills_in_the_properties_of_a_node() {
        let node = node();
        assert_eq!(filled("{name}", &node).as_deref(), Some("hot-0"));
        assert_eq!(filled("outbound|9200||{name}.es.svc", &node).as_deref(), Some("outbound|9200||hot-0.es.svc"));
        assert_eq!(filled("{attr.zone}-{id}", &node).as_deref(), Some("a-xyz"));
        assert_eq!(filled("{host}:{http_port} {ip}", &node).as_deref(), Some("es.example:9201 10.0.0.7"));
        assert_eq!(filled("{address}", &node).as_deref(), Some("10.0.0.7:9201"));
        assert_eq!(filled("{attr.rack}", &node), None);
        assert_eq!(["{ip}", "{address}"].map(|text| filled(text, &Node { http: None, ..node.clone() })), [None, None]);
        let v6 = Node { http: HttpAddress::read("[fd00::7]:9201"), ..node };
        assert_eq!(filled("{address} {ip}", &v6).as_deref(), Some("[fd00::7]:9201 fd00::7"));
    }

    #[test]
    fn needs_addresses_only_for_address_placeholders() {
        for (template, needed) in [
            ("{name}", false),
            ("{id}{attr.ip}", false),
            ("{address}", true),
            ("{host}", true),
            ("{ip}", true),
            ("{http_port}x", true),
        ] {
            assert_eq!(Template::new(template).unwrap().needs_http(), needed, "{template}");
        }
    }

    #[test]
    fn rejects_a_text_that_is_not_a_template() {
        for text in ["", "es", "es-{name", "es-{port}", "{attr.}", "{name}}", "{}"] {
            let expected = Template::new(text).unwrap_err();
            assert!(expected.contains("{attr.X}") && expected.contains(&format!("{text:?}")), "{expected}");
        }
    }
}
