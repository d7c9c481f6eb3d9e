use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Node;
use super::node::Nodes;
use super::seal::{sealed, unsealed};
use super::section::{Entry, SECTIONS, Section, Sections, Target};
use crate::json::Object;

/// All that is known of the cluster, in parts that workers tell one another.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub sections: Sections,
    pub cluster: ClusterPart,
    /// What was changed here and not published yet.
    pub unpublished: BTreeSet<Part>,
    /// What others have published and could not be read here. Nothing is known of it.
    pub lacking: BTreeSet<Part>,
}

/// What is known of the cluster but for its indices.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ClusterPart {
    /// Another whenever the nodes were numbered anew. None but zero is ever used again.
    pub numbering: u64,
    pub nodes: Nodes,
    /// Whether there are so many indices that only the wanted ones are loaded.
    pub is_partial: bool,
    /// The answer about the cluster's settings, as it came.
    pub settings: Vec<u8>,
    /// See [`Overview::alias_signature`](super::overview::Overview::alias_signature).
    pub alias_signature: u64,
}

/// One of the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Part {
    Cluster,
    Section(u8),
}

/// A part as it is published, with its tag and the [numbering](ClusterPart::numbering) by which it tells of nodes.
#[derive(Serialize, Deserialize)]
struct Published<T>(u64, u64, T);

impl Content {
    /// Changes a section.
    pub fn change(&mut self, section: u8, change: impl FnOnce(&mut hashbrown::HashMap<Box<str>, Entry>)) {
        self.sections.change(section, change);
        self.unpublished.insert(Part::Section(section));
    }

    /// Notes where an alias or a data stream leads.
    pub fn set_target(&mut self, name: &str, target: Target) {
        self.sections.set_target(name, target);
        self.unpublished.insert(Part::Section(Sections::number(name)));
    }

    /// Changes what is known of the cluster but for its indices.
    pub fn change_cluster(&mut self, change: impl FnOnce(&mut ClusterPart)) {
        change(&mut self.cluster);
        self.unpublished.insert(Part::Cluster);
    }

    /// Removes the names of a section that were not seen in this turn.
    pub fn prune(&mut self, section: u8, turn: u32) {
        let is_gone = |entry: &Entry| entry.seen().get() != turn;
        if self.sections.section(section).is_some_and(|section| section.names().values().any(is_gone)) {
            self.change(section, |names| names.retain(|_, entry| !is_gone(entry)));
        }
    }

    /// The parts in the order in which they can be taken over: primaries name nodes by number.
    pub fn parts() -> impl DoubleEndedIterator<Item = Part> {
        [Part::Cluster].into_iter().chain((0..SECTIONS).map(Part::Section))
    }

    /// Whether nothing needs to be published of a part.
    pub fn is_empty(&self, part: Part) -> bool {
        match part {
            Part::Cluster => false,
            Part::Section(number) => self.sections.section(number).is_none_or(|section| section.names().is_empty()),
        }
    }

    /// A part as it is published.
    pub fn encode(&self, part: Part, tag: u64) -> Vec<u8> {
        let numbering = self.cluster.numbering;
        match part {
            Part::Cluster => sealed(&Published(tag, numbering, &self.cluster)),
            Part::Section(number) => {
                sealed(&Published(tag, numbering, self.sections.section(number).unwrap_or(&Section::default())))
            }
        }
    }

    /// Takes over a part that was published with this tag; says whether it is that. If not, nothing is known of it
    /// any more: what it was before may tell of nodes by numbers that others have given to other nodes.
    pub fn decode(&mut self, part: Part, tag: u64, value: &[u8]) -> bool {
        let is_taken = match part {
            Part::Cluster => match unsealed(value) {
                Some(Published(found, numbering, cluster)) if found == tag => self.take_cluster(numbering, cluster),
                _ => false,
            },
            Part::Section(number) => match unsealed(value) {
                Some(Published(found, numbering, section)) if (found, numbering) == (tag, self.cluster.numbering) => {
                    self.sections.replace(number, section);
                    true
                }
                _ => false,
            },
        };
        self.forget(part, is_taken);
        if !is_taken {
            self.lacking.insert(part);
        }
        is_taken
    }

    /// Nothing was published of a part.
    pub fn clear(&mut self, part: Part) {
        self.forget(part, false);
    }

    fn take_cluster(&mut self, numbering: u64, cluster: ClusterPart) -> bool {
        if numbering != self.cluster.numbering {
            *self = Self::default();
        }
        self.cluster = cluster;
        numbering == self.cluster.numbering
    }

    /// Forgets that a part was changed or is lacking here, and unless it was replaced what is in it.
    fn forget(&mut self, part: Part, is_replaced: bool) {
        match part {
            _ if is_replaced => {}
            Part::Cluster => *self = Self::default(),
            Part::Section(number) => self.sections.replace(number, Section::default()),
        }
        self.unpublished.remove(&part);
        self.lacking.remove(&part);
    }

    /// Takes in which nodes there are. If there were ever too many to number, all that is known is forgotten first;
    /// then or for the first time they are numbered under this number, which nobody has used.
    pub fn set_nodes(&mut self, found: BTreeMap<String, Node>, numbering: u64) {
        if self.cluster.numbering == 0 {
            self.begin_anew(numbering);
        }
        let Some(changed) = self.cluster.nodes.update(found.clone()) else {
            self.begin_anew(numbering);
            self.cluster.nodes.update(found);
            return;
        };
        if changed {
            self.unpublished.insert(Part::Cluster);
        }
    }

    /// Forgets all that is known of nodes and indices.
    pub fn begin_anew(&mut self, numbering: u64) {
        let settings = std::mem::take(&mut self.cluster.settings);
        *self = Self {
            cluster: ClusterPart { numbering, settings, ..ClusterPart::default() },
            unpublished: Self::parts().collect(),
            ..Self::default()
        };
    }

    /// Takes in what the cluster says of its settings; says whether that is any news.
    pub fn set_settings(&mut self, answer: &[u8]) -> Result<bool, serde_json::Error> {
        let Object(_) = serde_json::from_slice::<Object<serde::de::IgnoredAny>>(answer)?;
        let is_new = self.cluster.settings != answer;
        if is_new {
            self.change_cluster(|cluster| cluster.settings = answer.to_vec());
        }
        Ok(is_new)
    }
}
