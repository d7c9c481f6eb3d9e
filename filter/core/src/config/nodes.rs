use std::collections::BTreeMap;

use serde::de::{Deserializer, Error, IntoDeserializer};
use serde::{Deserialize, Serialize};

use super::field::header_name;
use super::template::Template;
use crate::node::Node;
use crate::wildcard;

/// How a batch reaches its node: through an Envoy cluster that only this node has, or through one cluster with all nodes,
/// in which a header of the call names the node.
///
/// A node chooses what it reports. So it could choose any cluster that Envoy has or, if the one cluster has the type
/// `ORIGINAL_DST`, any address. `only` limits that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Fields", into = "Fields")]
pub struct NodeUpstreams {
    /// Builds the name of a node's Envoy cluster, or the node's address in the one cluster.
    template: Template,
    /// What overrides the template, by node name or id.
    exceptions: BTreeMap<String, String>,
    /// The patterns of which a built text must match one. Any text is allowed if there are none.
    only: Vec<String>,
    one_cluster: Option<OneCluster>,
    /// Whether each upstream is asked which node it leads to.
    check: bool,
    /// The name of the attribute that has a node's zone.
    zone: String,
}

/// An Envoy cluster with all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneCluster {
    /// The name; `None` if it is the coordinator.
    pub name: Option<String>,
    /// The header of a call that names the node's address.
    pub header: String,
}

/// The fields as users write them.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
struct Fields {
    /// The name of a node's Envoy cluster, with the placeholders `{name}`, `{id}`, `{address}`, `{host}`, `{ip}`,
    /// `{http_port}` and `{attr.X}`. With `header`, the name of the one cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<String>,
    /// Exceptions to `upstream`, by the name or the id of a node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    upstreams: BTreeMap<String, String>,
    /// The request header that names a node in the one cluster, such as `x-bulk-reshuffle-node`. Empty if each node has
    /// an Envoy cluster of its own.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "node_header")]
    #[cfg_attr(feature = "schema", schemars(with = "NodeHeaderText"))]
    header: String,
    /// The value of `header`: the address of a node, with the placeholders of `upstream`.
    #[serde(skip_serializing_if = "is_default_address")]
    address: String,
    /// Exceptions to `address`, by the name or the id of a node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    addresses: BTreeMap<String, String>,
    /// Patterns of which a built name or address must match one. Empty if any is allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(inner(length(min = 1))))]
    only: Vec<String>,
    /// Whether the filter asks each node's upstream which node it leads to.
    #[serde(skip_serializing_if = "Clone::clone")]
    check: bool,
    /// The attribute with a node's zone, `node.attr.zone`.
    #[serde(skip_serializing_if = "is_default_zone")]
    zone: String,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            upstream: None,
            upstreams: BTreeMap::new(),
            header: String::new(),
            address: ADDRESS.to_owned(),
            addresses: BTreeMap::new(),
            only: Vec::new(),
            check: true,
            zone: ZONE.to_owned(),
        }
    }
}

fn is_default_zone(zone: &str) -> bool {
    zone == ZONE
}

fn is_default_address(address: &str) -> bool {
    address == ADDRESS
}

/// The template of Envoy clusters: each has the name of its node.
const NAME: &str = "{name}";

/// The attribute with a node's zone, `node.attr.zone`.
const ZONE: &str = "zone";

/// The template of addresses: where the node takes HTTP requests.
const ADDRESS: &str = "{address}";

/// The maximum length of a built text, in bytes. Istio's names take some 330 at most, and metrics contain the name.
const MAX_BYTES: usize = 512;

/// Header names that do not begin like this may mean something to a node or to a client.
pub(super) const HEADER_PREFIX: &str = "x-";

/// Beginnings of the names of headers that a proxy, a node or a client acts on.
pub(super) const MEANINGFUL: &[&str] =
    &["x-b3-", "x-elastic-", "x-envoy-", "x-forwarded-", "x-opaque-id", "x-opensearch-", "x-real-ip", "x-request-id"];

/// The header that Envoy reads by default in a cluster of the type `ORIGINAL_DST`.
pub(super) const ORIGINAL_DST: &str = "x-envoy-original-dst-host";

/// The name of the header that names a node, for the schema.
#[cfg(feature = "schema")]
pub(super) enum NodeHeaderText {}

/// Reads the name of the header that names a node. The filter takes it off every request of a client.
fn node_header<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    if name.is_empty() {
        return Ok(name);
    }
    let name = header_name(name.into_deserializer())?;
    let has_meaning =
        !name.starts_with(HEADER_PREFIX) || MEANINGFUL.iter().any(|beginning| name.starts_with(beginning));
    match has_meaning && name != ORIGINAL_DST {
        true => Err(D::Error::custom(format!(
            "expected a header that begins with {HEADER_PREFIX:?} and means nothing to nodes or clients, \
             such as \"x-bulk-reshuffle-node\", found {name:?}"
        ))),
        false => Ok(name),
    }
}

impl NodeUpstreams {
    /// Returns the cluster with all nodes, if each call names its node.
    pub fn one_cluster(&self) -> Option<&OneCluster> {
        self.one_cluster.as_ref()
    }

    /// Returns whether each upstream is asked which node it leads to.
    pub fn checks(&self) -> bool {
        self.check
    }

    /// Returns the zone of a node, if the node reports one.
    pub fn zone<'a>(&self, node: &'a Node) -> Option<&'a str> {
        node.attributes.get(&self.zone).map(String::as_str)
    }

    /// Returns whether the nodes' HTTP addresses are needed, which the cluster state does not contain.
    pub fn needs_http(&self) -> bool {
        self.template.needs_http()
    }

    /// Returns the name of a node's own Envoy cluster, or its address in the one cluster. Returns `None` if the node does
    /// not report something that the template needs, or if the result is not allowed.
    pub fn of(&self, node: &Node) -> Option<String> {
        if let Some(exception) = self.exceptions.get(&node.name).or_else(|| self.exceptions.get(&node.id)) {
            return Some(exception.clone());
        }
        self.template.fill(node).filter(|built| self.allows(built))
    }

    fn allows(&self, built: &str) -> bool {
        let is_valid = match self.one_cluster {
            // Envoy takes a comma for the end of the first address.
            Some(_) => built.bytes().all(|byte| byte.is_ascii_graphic() && byte != b','),
            None => !built.contains(char::is_control),
        };
        let is_valid = is_valid && !built.is_empty() && built.len() <= MAX_BYTES;
        is_valid && (self.only.is_empty() || self.only.iter().any(|pattern| wildcard::fits(pattern, built)))
    }
}

impl Default for NodeUpstreams {
    /// Returns upstreams with the names of their nodes.
    fn default() -> Self {
        let template = Template::of_names();
        Self {
            template,
            exceptions: BTreeMap::new(),
            only: Vec::new(),
            one_cluster: None,
            check: true,
            zone: ZONE.to_owned(),
        }
    }
}

impl TryFrom<Fields> for NodeUpstreams {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Self, String> {
        let Fields { upstream, upstreams, header, address, addresses, only, check, zone } = fields;
        if only.iter().any(String::is_empty) {
            return Err("`only` takes names or addresses, in which `*` stands for any characters, found \"\"".into());
        }
        if header.is_empty() {
            if !is_default_address(&address) || !addresses.is_empty() {
                return Err("`address` and `addresses` need `header`, which names the node in one upstream".into());
            }
            let template = Template::new(upstream.as_deref().unwrap_or(NAME)).map_err(|expected| {
                format!("`upstream` takes {expected}. One upstream for all nodes needs `header`")
            })?;
            return Ok(Self { template, exceptions: upstreams, only, one_cluster: None, check, zone });
        }
        if !upstreams.is_empty() {
            return Err(
                "`upstreams` are for nodes that have upstreams of their own; with `header`, set `addresses`".into()
            );
        }
        if let Some(name) = upstream.as_ref().filter(|name| name.is_empty() || name.contains(['{', '}'])) {
            return Err(format!(
                "`upstream` takes the name of one Envoy cluster if there is a `header`, found {name:?}"
            ));
        }
        let template = Template::new(&address).map_err(|expected| format!("`address` takes {expected}"))?;
        Ok(Self {
            template,
            exceptions: addresses,
            only,
            one_cluster: Some(OneCluster { name: upstream, header }),
            check,
            zone,
        })
    }
}

impl From<NodeUpstreams> for Fields {
    fn from(nodes: NodeUpstreams) -> Self {
        let NodeUpstreams { template, exceptions, only, one_cluster, check, zone } = nodes;
        let template = template.to_string();
        match one_cluster {
            None => Self { upstream: Some(template), upstreams: exceptions, only, check, zone, ..Self::default() },
            Some(OneCluster { name, header }) => Self {
                upstream: name,
                header,
                address: template,
                addresses: exceptions,
                only,
                check,
                zone,
                ..Self::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::tests::node;
    use crate::node::HttpAddress;

    fn nodes(fields: Value) -> NodeUpstreams {
        serde_json::from_value(fields).unwrap()
    }

    fn named(name: &str) -> Node {
        Node { name: name.to_owned(), ..node() }
    }

    fn at(address: &str) -> Node {
        Node { http: HttpAddress::read(address), ..node() }
    }

    #[test]
    fn a_node_has_an_upstream_of_its_own_by_name_unless_a_header_names_it() {
        assert_eq!(NodeUpstreams::default(), nodes(json!({})));
        assert_eq!((nodes(json!({})).of(&node()).as_deref(), nodes(json!({})).one_cluster()), (Some("hot-0"), None));
        let one = nodes(json!({"header": "x-node"}));
        assert_eq!(one.of(&node()).as_deref(), Some("10.0.0.7:9201"));
        assert_eq!(one.one_cluster(), Some(&OneCluster { name: None, header: "x-node".to_owned() }));
        let own = nodes(json!({"header": "x-node", "upstream": "nodes", "address": "{attr.zone}.es:9200"}));
        assert_eq!(own.of(&node()).as_deref(), Some("a.es:9200"));
        assert_eq!(own.one_cluster().unwrap().name.as_deref(), Some("nodes"));
        assert_eq!(one.of(&Node { http: None, ..node() }), None, "the node has not reported its address yet");
        assert_eq!([nodes(json!({})), one, own].map(|nodes| nodes.needs_http()), [false, true, false]);
    }

    #[test]
    fn exceptions_match_a_name_or_an_id() {
        for key in ["hot-0", "xyz"] {
            let bare = Node { http: None, ..node() };
            assert_eq!(nodes(json!({"upstream": "{ip}", "upstreams": {key: "own"}})).of(&bare).as_deref(), Some("own"));
            let one = nodes(json!({"header": "x-node", "addresses": {key: "[::1]:1"}}));
            assert_eq!(one.of(&bare).as_deref(), Some("[::1]:1"));
        }
    }

    #[test]
    fn a_node_cannot_choose_an_upstream_outside_the_patterns() {
        let some = nodes(json!({"only": ["hot-*", "es-?", "outbound|9200||*.es.svc"]}));
        for name in ["hot-0", "hot-", "outbound|9200||a.es.svc"] {
            assert_eq!(some.of(&named(name)).as_deref(), Some(name));
        }
        for name in ["admin", "payments", "a-hot-0", "outbound|9200||a.es.svc.evil"] {
            assert_eq!(some.of(&named(name)), None, "{name}");
        }
        let special = nodes(json!({"upstreams": {"xyz": "special"}, "only": ["es-*"]}));
        assert_eq!(special.of(&node()).as_deref(), Some("special"));
        let one = nodes(json!({"header": "x-node", "only": ["10.0.*:9200"]}));
        assert_eq!(one.of(&at("10.0.4.5:9200")).as_deref(), Some("10.0.4.5:9200"));
        assert_eq!(["10.1.4.5:9200", "169.254.169.254:80"].map(|address| one.of(&at(address))), [None, None]);
    }

    #[test]
    fn rejects_invalid_names_and_addresses() {
        for name in ["", "a\nb", "a\u{7f}", &"n".repeat(MAX_BYTES + 1)] {
            assert_eq!(nodes(json!({})).of(&named(name)), None, "{name:?}");
        }
        assert!(nodes(json!({})).of(&named(&"n".repeat(MAX_BYTES))).is_some());
        let one = nodes(json!({"header": "x-node", "address": "{name}"}));
        for address in ["", "10.0.0.1:1,10.0.0.2:1", "10.0.0.1:1 ", "10.0.0.1:1\r\nx: y", "é:1"] {
            assert_eq!(one.of(&named(address)), None, "{address:?}");
        }
    }

    #[test]
    fn rejects_a_header_that_a_node_or_a_client_may_act_on() {
        for header in [
            "authorization",
            "host",
            ":authority",
            "X-Node",
            "x-opaque-id",
            "x-forwarded-for",
            "x-envoy-retry-on",
            "x-elastic-product-origin",
            "x-opensearch-product-origin",
        ] {
            assert!(serde_json::from_value::<NodeUpstreams>(json!({"header": header})).is_err(), "{header:?}");
        }
        assert!(nodes(json!({"header": "x-envoy-original-dst-host"})).one_cluster().is_some());
    }

    #[test]
    fn rejects_fields_that_contradict_each_other() {
        for (fields, problem) in [
            (json!({"upstream": "es"}), "One upstream for all nodes needs `header`"),
            (json!({"address": "{ip}:1"}), "need `header`"),
            (json!({"addresses": {"a": "b"}}), "need `header`"),
            (json!({"header": "x-node", "upstreams": {"a": "b"}}), "set `addresses`"),
            (json!({"header": "x-node", "upstream": "es-{name}"}), "takes the name of one Envoy cluster"),
            (json!({"header": "x-node", "upstream": ""}), "takes the name of one Envoy cluster"),
            (json!({"header": "x-node", "address": "10.0.0.1:9200"}), "`address` takes a text with placeholders"),
        ] {
            let error = serde_json::from_value::<NodeUpstreams>(fields.clone()).unwrap_err().to_string();
            assert!(error.contains(problem), "{fields}: {error}");
        }
    }
}
