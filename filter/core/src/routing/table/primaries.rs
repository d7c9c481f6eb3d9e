use std::fmt;

use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::node::Nodes;

/// The number of the node that holds a shard's started primary, or a marker that there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Primary(u16);

/// The locations of an index's primaries, by shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Primaries {
    pub list: Box<[Primary]>,
    /// Whether no primary is about to start or to move.
    pub settled: bool,
}

impl Primary {
    pub const NOT_STARTED: Self = Self(u16::MAX);
    /// The marker for a node that the cluster does not report.
    pub const ELSEWHERE: Self = Self(u16::MAX - 1);

    pub fn on(node: u16) -> Self {
        Self(node)
    }

    pub fn node(self) -> Option<u16> {
        (self != Self::NOT_STARTED).then_some(self.0)
    }
}

/// The object `routing_table.indices.X` in the cluster's state.
#[derive(Debug, Deserialize)]
pub(crate) struct ShardTable<'a> {
    #[serde(borrow)]
    shards: Shards<'a>,
}

/// The shards by number, each with its primary. Texts are borrowed, because there may be a hundred thousand shards.
#[derive(Debug)]
struct Shards<'a>(Vec<(usize, Option<ShardCopy<'a>>)>);

#[derive(Debug, Deserialize)]
struct ShardCopy<'a> {
    primary: bool,
    /// The state: `STARTED`, `RELOCATING`, `INITIALIZING` or `UNASSIGNED`.
    state: &'a str,
    node: Option<&'a str>,
}

impl ShardTable<'_> {
    /// Returns the primaries with the numbers of their nodes. A relocating primary still serves on its old node.
    pub fn primaries(&self, nodes: &Nodes) -> Primaries {
        let Shards(shards) = &self.shards;
        let mut list = vec![Primary::NOT_STARTED; shards.len()].into_boxed_slice();
        let mut settled = true;
        for (shard, copy) in shards {
            let state = copy.as_ref().map_or("", |copy| copy.state);
            settled &= state == "STARTED";
            let node = copy.as_ref().filter(|_| matches!(state, "STARTED" | "RELOCATING")).and_then(|copy| copy.node);
            let Some(primary) = list.get_mut(*shard) else { continue };
            *primary = match node {
                Some(id) => nodes.number(id).map_or(Primary::ELSEWHERE, Primary::on),
                None => Primary::NOT_STARTED,
            };
            settled &= *primary != Primary::ELSEWHERE;
        }
        Primaries { list, settled }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Shards<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(ShardsVisitor)
    }
}

struct ShardsVisitor;

impl<'de> Visitor<'de> for ShardsVisitor {
    type Value = Shards<'de>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("shards by number")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut shards = Vec::new();
        while let Some(number) = map.next_key::<&str>()? {
            let number = number.parse().map_err(|_| A::Error::custom("expected the number of a shard"))?;
            let copies: Vec<ShardCopy<'de>> = map.next_value()?;
            // After a move both copies claim to be primary. The one that serves applies.
            let mut primaries = copies.into_iter().filter(|copy| copy.primary);
            let first = primaries.next();
            let serves = |copy: &ShardCopy<'_>| matches!(copy.state, "STARTED" | "RELOCATING");
            let serving = if first.as_ref().is_some_and(serves) { None } else { primaries.find(serves) };
            shards.push((number, serving.or(first)));
        }
        Ok(Shards(shards))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::node::Node;

    fn primaries(shards: &serde_json::Value) -> Primaries {
        let nodes = ["a", "b"].map(|id| (id.to_owned(), Node { id: id.to_owned(), ..Node::default() }));
        let mut numbered = Nodes::default();
        numbered.update(BTreeMap::from(nodes)).unwrap();
        let text = json!({ "shards": shards }).to_string();
        serde_json::from_str::<ShardTable<'_>>(&text).unwrap().primaries(&numbered)
    }

    fn copy(primary: bool, state: &str, node: Option<&str>) -> serde_json::Value {
        json!({"primary": primary, "state": state, "node": node, "shard": 0})
    }

    fn first(copies: &[serde_json::Value]) -> (Option<u16>, bool) {
        let primaries = primaries(&json!({ "0": copies }));
        (primaries.list[0].node(), primaries.settled)
    }

    #[test]
    fn finds_the_started_primary() {
        assert_eq!(first(&[copy(false, "STARTED", Some("a")), copy(true, "STARTED", Some("b"))]), (Some(1), true));
        let relocating = [copy(true, "INITIALIZING", Some("b")), copy(true, "RELOCATING", Some("a"))];
        assert_eq!(first(&relocating), (Some(0), false));
        assert_eq!(first(&[copy(true, "INITIALIZING", Some("a"))]), (None, false));
        assert_eq!(first(&[copy(true, "UNASSIGNED", None)]), (None, false));
        assert_eq!(first(&[copy(true, "DREAMING", Some("a"))]), (None, false));
        assert_eq!(first(&[copy(false, "STARTED", Some("a"))]), (None, false));
        assert_eq!(first(&[copy(true, "STARTED", Some("z"))]), (Primary::ELSEWHERE.node(), false));
        assert_eq!(first(&[]), (None, false));
    }

    #[test]
    fn shards_may_come_in_any_order() {
        let started = |node| json!([copy(true, "STARTED", Some(node))]);
        let found = primaries(&json!({"1": started("b"), "0": started("a")}));
        assert_eq!(
            (found.list.iter().map(|primary| primary.node()).collect::<Vec<_>>(), found.settled),
            (vec![Some(0), Some(1)], true)
        );
        assert_eq!(primaries(&json!({"7": started("b")})).list[0].node(), None);
        assert_eq!(primaries(&json!({})).list.len(), 0);
    }
}
