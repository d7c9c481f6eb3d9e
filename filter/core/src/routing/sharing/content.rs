use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::checksum::Checksum;
use crate::json::Object;
use crate::node::{Node, Nodes};
use crate::routing::pipelines::Pipelines;
use crate::routing::table::{BUCKETS, Bucket, Buckets, Entry, Target};

/// Everything known about the cluster, in the parts that workers share.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub buckets: Buckets,
    pub cluster: ClusterPart,
    /// The verdicts on the cluster's pipelines, once a worker has needed them.
    pub pipelines: Option<Rc<Pipelines>>,
    /// The parts that this worker has changed and not published yet.
    pub unpublished: BTreeSet<Part>,
    /// The parts that other workers have published and this one could not read. They are empty here.
    pub lacking: BTreeSet<Part>,
}

/// The known properties of the cluster, except its indices.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ClusterPart {
    /// The number of the nodes' numbering. It changes with each new numbering, and no number except zero is reused.
    pub numbering: u64,
    pub nodes: Nodes,
    /// Whether only the wanted indices are loaded, because there are so many.
    pub is_partial: bool,
    /// The answer about the cluster's settings, unchanged.
    pub settings: Vec<u8>,
    /// The signature of the aliases: see `Overview::alias_signature`.
    pub alias_signature: u64,
}

/// One of the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Part {
    Cluster,
    Pipelines,
    Bucket(u8),
}

/// A published part, with its tag and the [numbering](ClusterPart::numbering) that its node numbers refer to.
#[derive(Serialize, Deserialize)]
struct Published<T>(u64, u64, T);

/// Returns a part that was published with this tag, after its numbering.
fn opened<T: DeserializeOwned>(checksum: &Checksum, tag: u64, value: &[u8]) -> Option<(u64, T)> {
    let Published(found, numbering, part) = checksum.decode(value)?;
    (found == tag).then_some((numbering, part))
}

impl Content {
    /// Changes a bucket.
    pub fn change(&mut self, bucket: u8, change: impl FnOnce(&mut hashbrown::HashMap<Box<str>, Entry>)) {
        self.buckets.change(bucket, change);
        self.unpublished.insert(Part::Bucket(bucket));
    }

    /// Sets the target of an alias or a data stream.
    pub fn set_target(&mut self, name: &str, target: Target) {
        self.buckets.set_target(name, target);
        self.unpublished.insert(Part::Bucket(Buckets::number(name)));
    }

    /// Changes the properties of the cluster, except its indices.
    pub fn change_cluster(&mut self, change: impl FnOnce(&mut ClusterPart)) {
        change(&mut self.cluster);
        self.unpublished.insert(Part::Cluster);
    }

    /// Sets the verdicts on the cluster's pipelines; `None` if they are unknown.
    pub fn set_pipelines(&mut self, pipelines: Option<Pipelines>) {
        if self.pipelines.as_deref() != pipelines.as_ref() {
            self.pipelines = pipelines.map(Rc::new);
            self.unpublished.insert(Part::Pipelines);
        }
    }

    /// Removes the names of a bucket that this cycle did not see.
    pub fn prune(&mut self, bucket: u8, cycle: u32) {
        let is_gone = |entry: &Entry| entry.seen().get() != cycle;
        if self.buckets.bucket(bucket).is_some_and(|bucket| bucket.names.values().any(is_gone)) {
            self.change(bucket, |names| names.retain(|_, entry| !is_gone(entry)));
        }
    }

    /// Returns the parts in the order in which they can be applied: buckets refer to nodes by number.
    pub fn parts() -> impl DoubleEndedIterator<Item = Part> {
        [Part::Cluster, Part::Pipelines].into_iter().chain((0..BUCKETS).map(Part::Bucket))
    }

    /// Returns whether a part has nothing to publish.
    pub fn is_empty(&self, part: Part) -> bool {
        match part {
            Part::Cluster => false,
            Part::Pipelines => self.pipelines.is_none(),
            Part::Bucket(number) => self.buckets.bucket(number).is_none_or(|bucket| bucket.names.is_empty()),
        }
    }

    /// Returns the published form of a part.
    pub fn encode(&self, part: Part, checksum: &Checksum, tag: u64) -> Vec<u8> {
        let numbering = self.cluster.numbering;
        match part {
            Part::Cluster => checksum.encode(&Published(tag, numbering, &self.cluster)),
            Part::Pipelines => checksum.encode(&Published(tag, numbering, self.pipelines.as_deref())),
            Part::Bucket(number) => {
                checksum.encode(&Published(tag, numbering, self.buckets.bucket(number).unwrap_or(&Bucket::default())))
            }
        }
    }

    /// Applies a part that was published with this tag. Returns whether the value was valid. If not, the part becomes
    /// empty here: its old content may refer to nodes by numbers that other workers have reassigned.
    pub fn decode(&mut self, part: Part, tag: u64, checksum: &Checksum, value: &[u8]) -> bool {
        let expected = self.cluster.numbering;
        let is_taken = match part {
            Part::Cluster => {
                opened(checksum, tag, value).is_some_and(|(numbering, cluster)| self.take_cluster(numbering, cluster))
            }
            Part::Pipelines => opened::<Option<Pipelines>>(checksum, tag, value)
                .filter(|(numbering, _)| *numbering == expected)
                .map(|(_, pipelines)| self.pipelines = pipelines.map(Rc::new))
                .is_some(),
            Part::Bucket(number) => opened(checksum, tag, value)
                .filter(|(numbering, _)| *numbering == expected)
                .map(|(_, bucket)| self.buckets.replace(number, bucket))
                .is_some(),
        };
        self.forget(part, is_taken);
        if !is_taken {
            self.lacking.insert(part);
        }
        is_taken
    }

    /// Empties a part that is not published.
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

    /// Removes the records that a part was changed or is lacking, and empties it unless it was replaced.
    fn forget(&mut self, part: Part, is_replaced: bool) {
        match part {
            _ if is_replaced => {}
            Part::Cluster => *self = Self::default(),
            Part::Pipelines => self.pipelines = None,
            Part::Bucket(number) => self.buckets.replace(number, Bucket::default()),
        }
        self.unpublished.remove(&part);
        self.lacking.remove(&part);
    }

    /// Sets the current nodes. The first call, and any call after which there are too many nodes to number, discards
    /// all content and renumbers the nodes under `numbering`, which must be unused.
    pub fn set_nodes(&mut self, found: BTreeMap<String, Node>, numbering: u64) {
        if self.cluster.numbering == 0 {
            self.restart(numbering);
        }
        let Some(changed) = self.cluster.nodes.update(found.clone()) else {
            self.restart(numbering);
            self.cluster.nodes.update(found);
            return;
        };
        if changed {
            self.unpublished.insert(Part::Cluster);
        }
    }

    /// Discards all known nodes and indices.
    pub fn restart(&mut self, numbering: u64) {
        let settings = std::mem::take(&mut self.cluster.settings);
        *self = Self {
            cluster: ClusterPart { numbering, settings, ..ClusterPart::default() },
            unpublished: Self::parts().collect(),
            ..Self::default()
        };
    }

    /// Sets the cluster's answer about its settings. Fails if the answer is not an object.
    pub fn set_settings(&mut self, answer: &[u8]) -> Result<(), serde_json::Error> {
        let Object(_) = serde_json::from_slice::<Object<serde::de::IgnoredAny>>(answer)?;
        if self.cluster.settings != answer {
            self.change_cluster(|cluster| cluster.settings = answer.to_vec());
        }
        Ok(())
    }
}
