//! How far operations go, from the node that gets a request to the nodes of their primaries.

use std::collections::BTreeMap;

use crate::engine::requests::Request;
use crate::routing::{Node, Unrouted, UpstreamId};

/// The bytes of a request's operations.
#[derive(Debug, Default)]
pub struct Bytes {
    /// Those whose primary's node is known, by its upstream.
    pub located: BTreeMap<UpstreamId, u64>,
    /// The others.
    pub unlocated: u64,
}

impl Bytes {
    /// Returns the bytes of the operations of a request.
    pub fn of(request: &Request) -> Self {
        let mut bytes = Self::default();
        for operation in &request.operations {
            let share = request.shares.get(usize::from(operation.placement.share));
            let sum = match share.filter(|_| operation.placement.is_located) {
                Some(share) => bytes.located.entry(share.destination.upstream).or_default(),
                None => &mut bytes.unlocated,
            };
            *sum = sum.saturating_add(u64::from(operation.len));
        }
        bytes
    }

    pub fn is_empty(&self) -> bool {
        self.located.is_empty() && self.unlocated == 0
    }
}

/// How far the operations of a request went, in bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Crossings {
    /// Those whose primary's node is in the table.
    pub located: u64,
    /// Of these, those that went on to another node.
    pub between_nodes: u64,
    /// Of these, those that went to another zone: to that of the node which answered, or on to that of the primary.
    pub between_zones: u64,
    /// Of these, those that would have gone to another zone at once.
    pub to_other_zones: u64,
}

impl Crossings {
    /// Returns the crossings of a request that was answered at an address, and came from an Envoy in a zone. A zone that
    /// is not known is not crossed. Returns `None` if no node has the address.
    pub fn of<'a>(
        bytes: &Bytes,
        nodes: impl Iterator<Item = (&'a Node, Result<UpstreamId, Unrouted>)> + Clone,
        zone_of: impl Fn(&'a Node) -> Option<&'a str>,
        (address, zone): (&str, Option<&str>),
    ) -> Option<Self> {
        let is_there = |node: &Node| node.http.as_ref().is_some_and(|http| http.is(address));
        let (receiver, _) = nodes.clone().find(|(node, _)| is_there(node))?;
        let differ = |one: Option<&str>, other: Option<&str>| one.zip(other).is_some_and(|(one, other)| one != other);
        let first = zone_of(receiver);
        let (mut found, mut left) = (Self::default(), bytes.located.clone());
        for (node, upstream) in nodes {
            let Some(bytes) = upstream.ok().and_then(|upstream| left.remove(&upstream)) else { continue };
            let add = |sum: &mut u64, is_crossed: bool| {
                *sum = sum.saturating_add(if is_crossed { bytes } else { 0 });
            };
            add(&mut found.located, true);
            add(&mut found.between_nodes, node.id != receiver.id);
            add(&mut found.between_zones, differ(zone, first));
            add(&mut found.between_zones, differ(first, zone_of(node)));
            add(&mut found.to_other_zones, differ(zone, zone_of(node)));
        }
        Some(found)
    }
}
