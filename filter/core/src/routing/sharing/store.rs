use std::rc::Rc;

use super::checksum::Checksum;
use super::content::Part;
use super::lease::Lease;
use super::shared_data::SharedData;
use crate::config::Config;
use crate::routing::table::Version;

/// Where the workers tell one another what they have found: parts, and the lease that lists them.
#[derive(Debug)]
pub(crate) struct SharedStore {
    shared: Box<dyn SharedData>,
    checksum: Checksum,
    /// Tells this worker from all others.
    worker: u64,
    next_tag: u64,
    /// The lease when it was last read to be taken or written here, with the tags of the parts that are known here.
    own: Lease,
    /// The bytes of the lease that was read last, and what they say.
    read: (Vec<u8>, Option<Rc<Lease>>),
}

/// The lease as it was read, and the version of its value. It can be written until another worker writes it.
#[derive(Debug)]
pub(crate) struct Found {
    pub lease: Rc<Lease>,
    version: Option<u32>,
}

/// The form in which parts are published. Workers with another form are among themselves.
const FORM: &str = "bulk_reshuffle.state.4";

/// The version of a value that is not there yet: whoever writes under it writes first, or not at all.
const FIRST: u32 = u32::MAX;

impl SharedStore {
    pub fn new(config: &Config, worker: u64, shared: Box<dyn SharedData>) -> Self {
        Self {
            shared,
            checksum: Checksum::new(config),
            worker,
            // Tags of two workers differ in the upper half.
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

    /// The lease as it is now.
    pub fn lease(&mut self) -> Found {
        let (value, version) = self.shared.read(&self.lease_key());
        // Most looks find what the last one found.
        if let Some(value) = value
            && value != self.read.0
        {
            let lease = self.checksum.decode(&value).map(Rc::new);
            self.read = (value, lease);
        }
        // Nothing there, or nothing shared: what was written last.
        let lease = self.read.1.clone().filter(|_| version.is_some());
        Found { lease: lease.unwrap_or_else(|| Rc::new(self.own.clone())), version }
    }

    /// Whether this worker was the last one to have the lease.
    pub fn is_own(&self, lease: &Lease) -> bool {
        lease.holder == self.worker
    }

    /// Takes the lease; returns whether no other worker was faster.
    pub fn take(&mut self, found: &Found) -> bool {
        // It lists what is known here, or nothing at all if an earlier one was lost: that takes nothing away.
        let parts = std::mem::take(&mut self.own.parts);
        self.own = Lease { holder: self.worker, parts, ..Lease::clone(&found.lease) };
        self.write(found, true)
    }

    /// Shows the others that the lease is not forgotten, if it is still here.
    pub fn beat(&mut self) {
        let found = self.lease();
        if self.is_own(&found.lease) {
            self.write(&found, true);
        }
    }

    /// Tells the others of the parts that were published and withdrawn, and which state was read completely last.
    pub fn tell(&mut self, found: &Found, is_held: bool, known: Option<&Version>) {
        self.own.known = known.cloned();
        self.own.returns = found.lease.returns.wrapping_add(u32::from(!is_held));
        // If somebody else has just taken the lease, the next look sets that right.
        self.write(found, is_held);
    }

    /// Whether a part is known here as this lease lists it.
    pub fn has(&self, part: Part, lease: &Lease) -> bool {
        self.own.parts.get(&part) == lease.parts.get(&part)
    }

    /// What was published of a part, which from now on is known here under this tag.
    pub fn read(&mut self, part: Part, tag: u64) -> Vec<u8> {
        self.own.parts.insert(part, tag);
        let (value, _) = self.shared.read(&self.key(part));
        value.unwrap_or_default()
    }

    /// Publishes a part, encoded with the checksum and the tag that it is given.
    pub fn publish(&mut self, part: Part, encode: impl FnOnce(&Checksum, u64) -> Vec<u8>) {
        let tag = self.tag();
        self.shared.write(&self.key(part), &encode(&self.checksum, tag), None);
        self.own.parts.insert(part, tag);
    }

    /// By what the workers know each other's values.
    pub fn checksum(&self) -> &Checksum {
        &self.checksum
    }

    /// From now on nothing is published of a part.
    pub fn withdraw(&mut self, part: Part) {
        self.own.parts.remove(&part);
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
            Part::Bucket(number) => format!("{}.{number}", self.prefix()),
        }
    }

    /// In front of all keys.
    fn prefix(&self) -> String {
        format!("{FORM}.{:016x}", self.checksum.group)
    }
}
