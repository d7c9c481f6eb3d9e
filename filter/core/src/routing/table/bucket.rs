use std::cell::Cell;
use std::rc::Rc;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use super::index::Index;
use super::name_kind::NameKind;
use super::unrouted::Unrouted;
use crate::hash::hash;

/// All names that operations can be written to, in buckets of about the same size. A change copies its bucket. Requests
/// that are being read thus keep their table, and a worker that shares the table publishes a bucket rather than all of
/// them.
#[derive(Debug, Clone)]
pub(crate) struct Buckets(Vec<Rc<Bucket>>);

/// The names of one bucket.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Bucket {
    pub names: HashMap<Box<str>, Entry>,
    /// The sorted numbers of the nodes that hold a started primary of one of its indices.
    nodes: Vec<u16>,
    /// Whether one of its indices has a pipeline.
    has_pipelines: bool,
}

/// The meaning of a name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Entry {
    Index(Index),
    Target(Target),
}

/// The target of writing to an alias or a data stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Target {
    pub index: Result<Box<str>, Unrouted>,
    /// The routing value that the alias adds.
    pub routing: Option<Box<str>>,
    pub kind: NameKind,
    /// The number of the last overview of the cluster that contained it.
    #[serde(skip)]
    pub seen: Cell<u32>,
}

impl Target {
    pub fn new(index: Result<&str, Unrouted>, routing: Option<&str>) -> Self {
        Self {
            index: index.map(Into::into),
            routing: routing.map(Into::into),
            kind: NameKind::Alias,
            seen: Cell::default(),
        }
    }

    /// Creates the target of a data stream, or of an alias of one.
    pub fn of_data_stream(kind: NameKind, index: Result<&str, Unrouted>) -> Self {
        Self { kind, ..Self::new(index, None) }
    }

    /// Returns whether both targets are the same.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.index, &self.routing, self.kind) == (&other.index, &other.routing, other.kind)
    }
}

impl Entry {
    /// Returns the number of the last overview of the cluster that contained the name.
    pub fn seen(&self) -> &Cell<u32> {
        match self {
            Self::Index(index) => &index.seen,
            Self::Target(target) => &target.seen,
        }
    }

    pub fn index(&self) -> Option<&Index> {
        match self {
            Self::Index(index) => Some(index),
            Self::Target(_) => None,
        }
    }

    pub fn target(&self) -> Option<&Target> {
        match self {
            Self::Index(_) => None,
            Self::Target(target) => Some(target),
        }
    }
}

/// The number of buckets: with 10,000 indices of ten shards, a bucket takes a few kilobytes.
pub(crate) const BUCKETS: u8 = u8::MAX;

impl Default for Buckets {
    fn default() -> Self {
        Self(vec![Rc::default(); usize::from(BUCKETS)])
    }
}

impl Buckets {
    /// Returns the number of the bucket for this name.
    pub fn number(name: &str) -> u8 {
        // The remainder fits, because it is less than 255.
        hash(name).checked_rem(u32::from(BUCKETS)).unwrap_or_default() as u8
    }

    /// Returns the meaning of a name.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.named(name).map(|(_, entry)| entry)
    }

    /// Returns the stored name and its meaning.
    pub fn named(&self, name: &str) -> Option<(&str, &Entry)> {
        let (name, entry) = self.bucket(Self::number(name))?.names.get_key_value(name)?;
        Some((name, entry))
    }

    /// Returns the index of this name.
    pub fn index(&self, name: &str) -> Option<&Index> {
        self.get(name)?.index()
    }

    /// Returns a bucket by its number.
    pub fn bucket(&self, number: u8) -> Option<&Bucket> {
        self.0.get(usize::from(number)).map(Rc::as_ref)
    }

    /// Changes a bucket.
    pub fn change(&mut self, number: u8, change: impl FnOnce(&mut HashMap<Box<str>, Entry>)) {
        if let Some(bucket) = self.0.get_mut(usize::from(number)) {
            let bucket = Rc::make_mut(bucket);
            change(&mut bucket.names);
            bucket.summarize();
        }
    }

    /// Sets the target of an alias or a data stream without iterating over the other names, of which there may be many.
    pub fn set_target(&mut self, name: &str, target: Target) {
        if let Some(bucket) = self.0.get_mut(usize::from(Self::number(name))) {
            let bucket = Rc::make_mut(bucket);
            if let Some(Entry::Index(_)) = bucket.names.insert(name.into(), Entry::Target(target)) {
                bucket.summarize();
            }
        }
    }

    /// Replaces a bucket.
    pub fn replace(&mut self, number: u8, with: Bucket) {
        if let Some(bucket) = self.0.get_mut(usize::from(number)) {
            *bucket = Rc::new(with);
        }
    }

    /// Returns all indices with their names.
    pub fn indices(&self) -> impl Iterator<Item = (&str, &Index)> {
        self.names().filter_map(|(name, entry)| Some((name, entry.index()?)))
    }

    /// Returns all aliases and data streams with their names.
    pub fn targets(&self) -> impl Iterator<Item = (&str, &Target)> {
        self.names().filter_map(|(name, entry)| Some((name, entry.target()?)))
    }

    fn names(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.0.iter().flat_map(|bucket| &bucket.names).map(|(name, entry)| (name.as_ref(), entry))
    }

    /// Returns whether an index has a pipeline.
    pub fn have_pipelines(&self) -> bool {
        self.0.iter().any(|bucket| bucket.has_pipelines)
    }

    /// Returns the numbers of all nodes that hold a started primary, possibly with duplicates.
    pub fn nodes(&self) -> impl Iterator<Item = u16> {
        self.0.iter().flat_map(|bucket| &bucket.nodes).copied()
    }
}

impl Bucket {
    fn summarize(&mut self) {
        self.has_pipelines = self.names.values().filter_map(Entry::index).any(|index| index.pipelines.is_some());
        let mut nodes: Vec<u16> = self.names.values().filter_map(Entry::index).flat_map(Index::nodes).collect();
        nodes.sort_unstable();
        nodes.dedup();
        self.nodes = nodes;
    }
}
