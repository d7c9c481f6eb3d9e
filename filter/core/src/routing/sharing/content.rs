use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::checksum::Checksum;
use crate::json::Object;
use crate::node::{Node, Nodes};
use crate::routing::table::{BUCKETS, Bucket, Buckets, Entry, Target};

/// All that is known of the cluster, in parts that workers tell one another.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub buckets: Buckets,
    pub cluster: ClusterPart,
    /// What was changed here and not published yet.
    pub unpublished: BTreeSet<Part>,
    /// What others have published and could not be read here. Nothing is known of it.
    pub lacking: BTreeSet<Part>,
}

/// What is known of the cluster but for its indices.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ClusterPart {
    /// Another whenever the nodes were numbered anew. None but zero is ever used again.
    pub numbering: u64,
    pub nodes: Nodes,
    /// Whether there are so many indices that only the wanted ones are loaded.
    pub is_partial: bool,
    /// The answer about the cluster's settings, as it came.
    pub settings: Vec<u8>,
    /// `Overview::alias_signature` says what it is made of.
    pub alias_signature: u64,
}

/// One of the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Part {
    Cluster,
    Bucket(u8),
}

/// A part as it is published, with its tag and the [numbering](ClusterPart::numbering) by which it tells of nodes.
#[derive(Serialize, Deserialize)]
struct Published<T>(u64, u64, T);

impl Content {
    /// Changes a bucket.
    pub fn change(&mut self, bucket: u8, change: impl FnOnce(&mut hashbrown::HashMap<Box<str>, Entry>)) {
        self.buckets.change(bucket, change);
        self.unpublished.insert(Part::Bucket(bucket));
    }

    /// Notes where an alias or a data stream leads.
    pub fn set_target(&mut self, name: &str, target: Target) {
        self.buckets.set_target(name, target);
        self.unpublished.insert(Part::Bucket(Buckets::number(name)));
    }

    /// Changes what is known of the cluster but for its indices.
    pub fn change_cluster(&mut self, change: impl FnOnce(&mut ClusterPart)) {
        change(&mut self.cluster);
        self.unpublished.insert(Part::Cluster);
    }

    /// Removes the names of a bucket that were not seen in this cycle.
    pub fn prune(&mut self, bucket: u8, cycle: u32) {
        let is_gone = |entry: &Entry| entry.seen().get() != cycle;
        if self.buckets.bucket(bucket).is_some_and(|bucket| bucket.names().values().any(is_gone)) {
            self.change(bucket, |names| names.retain(|_, entry| !is_gone(entry)));
        }
    }

    /// The parts in the order in which they can be taken over: primaries name nodes by number.
    pub fn parts() -> impl DoubleEndedIterator<Item = Part> {
        [Part::Cluster].into_iter().chain((0..BUCKETS).map(Part::Bucket))
    }

    /// Whether nothing needs to be published of a part.
    pub fn is_empty(&self, part: Part) -> bool {
        match part {
            Part::Cluster => false,
            Part::Bucket(number) => self.buckets.bucket(number).is_none_or(|bucket| bucket.names().is_empty()),
        }
    }

    /// A part as it is published.
    pub fn encode(&self, part: Part, checksum: &Checksum, tag: u64) -> Vec<u8> {
        let numbering = self.cluster.numbering;
        match part {
            Part::Cluster => checksum.encode(&Published(tag, numbering, &self.cluster)),
            Part::Bucket(number) => {
                checksum.encode(&Published(tag, numbering, self.buckets.bucket(number).unwrap_or(&Bucket::default())))
            }
        }
    }

    /// Takes over a part that was published with this tag; says whether it is that. If not, nothing is known of it
    /// any more: what it was before may tell of nodes by numbers that others have given to other nodes.
    pub fn decode(&mut self, part: Part, tag: u64, checksum: &Checksum, value: &[u8]) -> bool {
        let is_taken = match part {
            Part::Cluster => match checksum.decode(value) {
                Some(Published(found, numbering, cluster)) if found == tag => self.take_cluster(numbering, cluster),
                _ => false,
            },
            Part::Bucket(number) => match checksum.decode(value) {
                Some(Published(found, numbering, bucket)) if (found, numbering) == (tag, self.cluster.numbering) => {
                    self.buckets.replace(number, bucket);
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
            Part::Bucket(number) => self.buckets.replace(number, Bucket::default()),
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

    /// Takes in what the cluster says of its settings; says whether that is any events.
    pub fn set_settings(&mut self, answer: &[u8]) -> Result<bool, serde_json::Error> {
        let Object(_) = serde_json::from_slice::<Object<serde::de::IgnoredAny>>(answer)?;
        let is_new = self.cluster.settings != answer;
        if is_new {
            self.change_cluster(|cluster| cluster.settings = answer.to_vec());
        }
        Ok(is_new)
    }
}
