use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::checksum::Checksum;
use super::content::Part;
use super::lease::Lease;
use super::shared_data::SharedData;
use crate::config::Config;
use crate::routing::table::Version;

/// The store in which workers publish their results: parts, and the lease that lists them.
#[derive(Debug)]
pub(crate) struct SharedStore {
    shared: Box<dyn SharedData>,
    /// The checksum by which workers recognise each other's values.
    pub checksum: Checksum,
    /// The number of this worker.
    worker: u64,
    next_tag: u64,
    /// The lease as last written or taken by this worker, with the tags of the parts that it knows.
    own: Lease,
    /// The bytes of the last lease that was read, and the decoded lease.
    read: (Vec<u8>, Option<Rc<Lease>>),
}

/// A lease and the version of its value. It can be written until another worker writes it.
#[derive(Debug)]
pub(crate) struct Found {
    pub lease: Rc<Lease>,
    version: Option<u32>,
}

/// The version of the published format. Workers share only with workers of the same format.
const FORM: &str = "bulk_reshuffle.state.7";

/// The version that stands for an absent value. A write with it succeeds only if no other worker has written.
const FIRST: u32 = u32::MAX;

impl SharedStore {
    pub fn new(config: &Config, worker: u64, shared: Box<dyn SharedData>) -> Self {
        Self {
            shared,
            checksum: Checksum::new(config),
            worker,
            // The tags of two workers differ in the upper half.
            next_tag: worker << 32,
            own: Lease::default(),
            read: (Vec::new(), None),
        }
    }

    /// Returns a number that no worker has used.
    pub fn tag(&mut self) -> u64 {
        self.next_tag = self.next_tag.wrapping_add(1);
        self.next_tag
    }

    /// Reads the current lease.
    pub fn lease(&mut self) -> Found {
        let (value, version) = self.shared.read(&self.lease_key());
        // Most reads find the same value as the last one.
        if let Some(value) = value
            && value != self.read.0
        {
            let lease = self.checksum.decode(&value).map(Rc::new);
            self.read = (value, lease);
        }
        // Without a shared value, the last one written here applies.
        let lease = self.read.1.clone().filter(|_| version.is_some());
        Found { lease: lease.unwrap_or_else(|| Rc::new(self.own.clone())), version }
    }

    /// Returns whether this worker had the lease last.
    pub fn is_own(&self, lease: &Lease) -> bool {
        lease.holder == self.worker
    }

    /// Takes the lease. Returns `false` if another worker was faster.
    pub fn take(&mut self, found: &Found) -> bool {
        // It lists the parts known here, or none if an earlier lease was lost, which removes nothing.
        let parts = std::mem::take(&mut self.own.parts);
        self.own = Lease { holder: self.worker, parts, ..Lease::clone(&found.lease) };
        self.write(found, true)
    }

    /// Signals to the others that the lease is in use, if this worker still has it.
    pub fn beat(&mut self) {
        let found = self.lease();
        if self.is_own(&found.lease) {
            self.write(&found, true);
        }
    }

    /// Publishes the list of parts and the last state that was read completely. `read` is `None` unless it was read since
    /// the last call, and then tells whether states of several clusters were seen on the way.
    pub fn publish_list(&mut self, found: &Found, is_held: bool, known: Option<&Version>, read: Option<bool>) {
        self.own.known = known.cloned();
        self.own.successes = found.lease.successes.wrapping_add(u32::from(read.is_some()));
        self.own.has_several_clusters = read.unwrap_or(found.lease.has_several_clusters);
        self.own.returns = found.lease.returns.wrapping_add(u32::from(!is_held));
        // If another worker has just taken the lease, the next check corrects this.
        self.write(found, is_held);
    }

    /// Returns whether the part known here has the tag in this lease.
    pub fn has(&self, part: Part, lease: &Lease) -> bool {
        self.own.parts.get(&part) == lease.parts.get(&part)
    }

    /// Returns whether all parts known here have the tags of this lease, and no others do.
    pub fn has_all(&self, lease: &Lease) -> bool {
        self.own.parts == lease.parts
    }

    /// Reads a published part, and records it as known here under this tag.
    pub fn read(&mut self, part: Part, tag: u64) -> Vec<u8> {
        self.own.parts.insert(part, tag);
        let (value, _) = self.shared.read(&self.key(part));
        value.unwrap_or_default()
    }

    /// Publishes a part. `encode` gets the checksum and the tag.
    pub fn publish(&mut self, part: Part, encode: impl FnOnce(&Checksum, u64) -> Vec<u8>) {
        let tag = self.tag();
        self.shared.write(&self.key(part), &encode(&self.checksum, tag), None);
        self.own.parts.insert(part, tag);
    }

    /// Removes a part from the published ones.
    pub fn withdraw(&mut self, part: Part) {
        self.own.parts.remove(&part);
    }

    /// Returns another shared value and its version.
    pub fn value<T: DeserializeOwned>(&self, name: &str) -> (Option<T>, Option<u32>) {
        let (value, version) = self.shared.read(&format!("{}.{name}", self.prefix()));
        (value.and_then(|value| self.checksum.decode(&value)), version)
    }

    /// Writes another shared value. With a version, writes only if that is the value's current one, or if the value
    /// does not exist. Returns whether it wrote.
    pub fn set_value(&self, name: &str, value: &impl Serialize, version: Option<Option<u32>>) -> bool {
        let version = version.map(|version| version.unwrap_or(FIRST));
        self.shared.write(&format!("{}.{name}", self.prefix()), &self.checksum.encode(value), version)
    }

    fn write(&mut self, found: &Found, is_held: bool) -> bool {
        self.own.beat = found.lease.beat.wrapping_add(1);
        self.own.is_held = is_held;
        self.shared.write(&self.lease_key(), &self.checksum.encode(&self.own), found.version.or(Some(FIRST)))
    }

    fn lease_key(&self) -> String {
        format!("{}.lease", self.prefix())
    }

    fn key(&self, part: Part) -> String {
        match part {
            Part::Cluster => format!("{}.cluster", self.prefix()),
            Part::Pipelines => format!("{}.pipelines", self.prefix()),
            Part::Bucket(number) => format!("{}.{number}", self.prefix()),
        }
    }

    /// Returns the prefix of all keys.
    fn prefix(&self) -> String {
        format!("{FORM}.{:016x}", self.checksum.group)
    }
}
