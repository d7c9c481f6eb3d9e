use std::cell::Cell;
use std::rc::Rc;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use super::index::Index;
use super::name_kind::NameKind;
use super::unrouted::Unrouted;
use crate::hash::hash;

/// All names that operations can be written to, in buckets of about the same size. A change is made to a copy of
/// its bucket, so that requests that are being read keep what they began with, and whoever shares the table with
/// others tells them of a bucket rather than of all.
#[derive(Debug, Clone)]
pub(crate) struct Buckets(Vec<Rc<Bucket>>);

/// The names of one bucket.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Bucket {
    names: HashMap<Box<str>, Entry>,
    /// The numbers of the nodes that hold a started primary of one of them, in order.
    nodes: Vec<u16>,
}

/// What a name stands for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Entry {
    Index(Index),
    Target(Target),
}

/// Where writing to an alias or a data stream goes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Target {
    pub index: Result<Box<str>, Unrouted>,
    /// The routing value that the alias adds.
    pub routing: Option<Box<str>>,
    pub kind: NameKind,
    /// In which overview of the cluster it was seen last.
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

    /// A data stream, or an alias of one.
    pub fn of_data_stream(kind: NameKind, index: Result<&str, Unrouted>) -> Self {
        Self { kind, ..Self::new(index, None) }
    }

    /// Whether it leads to the same place.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.index, &self.routing, self.kind) == (&other.index, &other.routing, other.kind)
    }
}

impl Entry {
    /// In which overview of the cluster it was seen last.
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

/// How many there are: with 10,000 indices of ten shards one takes a few kilobytes.
pub(crate) const BUCKETS: u8 = u8::MAX;

impl Default for Buckets {
    fn default() -> Self {
        Self(vec![Rc::default(); usize::from(BUCKETS)])
    }
}

impl Buckets {
    /// The number of the bucket that has this name, if any has.
    pub fn number(name: &str) -> u8 {
        // A remainder of 255 fits.
        hash(name).checked_rem(u32::from(BUCKETS)).unwrap_or_default() as u8
    }

    /// What a name stands for.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.named(name).map(|(_, entry)| entry)
    }

    /// The same with the name, as long as the buckets are there.
    pub fn named(&self, name: &str) -> Option<(&str, &Entry)> {
        let (name, entry) = self.bucket(Self::number(name))?.names.get_key_value(name)?;
        Some((name, entry))
    }

    /// The index of this name.
    pub fn index(&self, name: &str) -> Option<&Index> {
        self.get(name)?.index()
    }

    /// One of the buckets.
    pub fn bucket(&self, number: u8) -> Option<&Bucket> {
        self.0.get(usize::from(number)).map(Rc::as_ref)
    }

    /// Changes one of the buckets.
    pub fn change(&mut self, number: u8, change: impl FnOnce(&mut HashMap<Box<str>, Entry>)) {
        if let Some(bucket) = self.0.get_mut(usize::from(number)) {
            let bucket = Rc::make_mut(bucket);
            change(&mut bucket.names);
            bucket.note_nodes();
        }
    }

    /// Notes where an alias or a data stream leads, without a look at the other names, of which there may be many.
    pub fn set_target(&mut self, name: &str, target: Target) {
        if let Some(bucket) = self.0.get_mut(usize::from(Self::number(name))) {
            let bucket = Rc::make_mut(bucket);
            if let Some(Entry::Index(_)) = bucket.names.insert(name.into(), Entry::Target(target)) {
                bucket.note_nodes();
            }
        }
    }

    /// Replaces one of the buckets.
    pub fn replace(&mut self, number: u8, with: Bucket) {
        if let Some(bucket) = self.0.get_mut(usize::from(number)) {
            *bucket = Rc::new(with);
        }
    }

    /// All names.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter().flat_map(|bucket| bucket.names.values())
    }

    /// All indices.
    pub fn indices(&self) -> impl Iterator<Item = (&str, &Index)> {
        self.names().filter_map(|(name, entry)| Some((name, entry.index()?)))
    }

    /// All aliases and data streams.
    pub fn targets(&self) -> impl Iterator<Item = (&str, &Target)> {
        self.names().filter_map(|(name, entry)| Some((name, entry.target()?)))
    }

    fn names(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.0.iter().flat_map(|bucket| &bucket.names).map(|(name, entry)| (name.as_ref(), entry))
    }

    /// The numbers of all nodes that hold a started primary, some more than once.
    pub fn nodes(&self) -> impl Iterator<Item = u16> {
        self.0.iter().flat_map(|bucket| &bucket.nodes).copied()
    }
}

impl Bucket {
    /// Its names.
    pub fn names(&self) -> &HashMap<Box<str>, Entry> {
        &self.names
    }

    fn note_nodes(&mut self) {
        let mut nodes: Vec<u16> = self.names.values().filter_map(Entry::index).flat_map(Index::nodes).collect();
        nodes.sort_unstable();
        nodes.dedup();
        self.nodes = nodes;
    }
}
