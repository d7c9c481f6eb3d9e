use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::Time;
use crate::config::NodeUpstreams;
use crate::node::Node;
use crate::routing::checks::{Meant, UpstreamCheck, UpstreamChecks};
use crate::routing::sharing::Content;
use crate::routing::table::{RoutingTable, Unrouted, UpstreamId, Upstreams};

/// The tables that are built from the known content: the last one, and whether the content has changed since.
#[derive(Debug)]
pub(crate) struct Tables {
    node_upstreams: NodeUpstreams,
    /// The upstreams that Envoy does not have or cannot reach, and the time from which they may be tried again.
    missing: BTreeMap<UpstreamId, Time>,
    last: Option<Rc<RoutingTable>>,
    is_old: bool,
}

impl Tables {
    /// Starts without a table.
    pub fn new(node_upstreams: NodeUpstreams) -> Self {
        Self { node_upstreams, missing: BTreeMap::new(), last: None, is_old: false }
    }

    /// Returns the last table.
    pub fn last(&self) -> Option<&Rc<RoutingTable>> {
        self.last.as_ref()
    }

    /// Returns whether there is a table, or content for the first one.
    pub fn has_any(&self) -> bool {
        self.last.is_some() || self.is_old
    }

    /// Returns whether tables need the nodes' HTTP addresses.
    pub fn need_http(&self) -> bool {
        self.node_upstreams.needs_http()
    }

    /// Records that the content has changed.
    pub fn outdate(&mut self) {
        self.is_old = true;
    }

    /// Records that Envoy does not have this upstream. Tables route to it again once the state is verified.
    pub fn miss(&mut self, upstream: UpstreamId) {
        self.avoid(upstream, Time::ZERO);
    }

    /// Records that Envoy cannot reach this upstream. Tables route to it again once the state is verified at this time
    /// or later.
    pub fn avoid(&mut self, upstream: UpstreamId, until: Time) {
        self.is_old |= self.missing.insert(upstream, until).is_none();
    }

    /// Routes to all indices again, and to upstreams that may be tried again, because the content is known to be that of
    /// the latest state.
    pub fn verify(&mut self, now: Time) {
        let before = self.missing.len();
        self.missing.retain(|_, until| *until > now);
        self.is_old |= self.missing.len() != before;
        if let Some(table) = &self.last {
            table.trust();
        }
    }

    /// Builds a table if the content has changed since the last one. It does not route to upstreams that lead to wrong
    /// nodes. Also returns the upstreams to check.
    pub fn build(
        &mut self,
        content: &Content,
        upstreams: &mut Upstreams,
        checks: &UpstreamChecks,
    ) -> Option<(Rc<RoutingTable>, Meant)> {
        if !std::mem::take(&mut self.is_old) {
            return None;
        }
        let mut taken = BTreeSet::new();
        let mut number = |node: &Node| {
            let built = self.node_upstreams.of(node)?;
            if self.node_upstreams.one_cluster().is_none() {
                return upstreams.intern(&built);
            }
            let upstream = upstreams.intern_node(node, &built, |other| taken.contains(&other))?;
            taken.insert(upstream);
            Some(upstream)
        };
        let nodes = content.cluster.nodes.list();
        let numbers: Rc<[_]> = nodes.iter().map(|node| if node.present { number(node) } else { None }).collect();
        let is_wrong = |node: &Node| checks.of_node(&node.id).is_some_and(UpstreamCheck::is_wrong);
        let usable = |(node, upstream): (&Node, &Option<UpstreamId>)| match *upstream {
            _ if !node.present => Err(Unrouted::Primary),
            Some(_) if is_wrong(node) => Err(Unrouted::WrongUpstream),
            Some(upstream) if !self.missing.contains_key(&upstream) => Ok(upstream),
            _ => Err(Unrouted::Upstream),
        };
        let by_node = nodes.iter().zip(numbers.iter()).map(usable).collect();
        let pipelines = content.pipelines.clone();
        let table =
            Rc::new(RoutingTable::new(content.buckets.clone(), nodes.into(), Rc::clone(&numbers), by_node, pipelines));
        let named = table.nodes_with_primaries().filter_map(|(number, node)| {
            let upstream = numbers.get(number).copied().flatten()?;
            Some((upstream, upstreams.name_and_address(upstream), node))
        });
        let meant = Meant::new(named);
        self.last = Some(Rc::clone(&table));
        Some((table, meant))
    }
}
