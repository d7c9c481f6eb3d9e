use super::{HeldShare, Key, Waiting};
use crate::Time;
use crate::engine::head::{CallerId, SlotClass};
use crate::routing::UpstreamId;

/// What leaves for an upstream together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The upstream that it is sent to.
    pub upstream: UpstreamId,
    /// On whose behalf.
    pub caller: CallerId,
    /// The slots that it takes.
    pub class: SlotClass,
    /// Whose operations, in the order in which they are sent.
    pub shares: Vec<HeldShare>,
    /// The hold that it left and that counts it as on its way, until it is settled or goes elsewhere.
    pub hold: Option<Key>,
    /// When it was sent first.
    pub first_sent: Time,
    /// When it was sent last.
    pub sent: Time,
    /// How often it could not be sent.
    pub not_sent: u8,
    /// How often it was sent again after a node had it, or refused it.
    pub retries: u32,
    /// Whether a node may have carried it out already.
    pub lost: bool,
}

impl Batch {
    /// How many operations are in it.
    pub fn operations(&self) -> u64 {
        self.shares.iter().map(|held| held.operations).sum()
    }

    /// Whether it leaves its hold, rather than being sent again, or elsewhere, or in parts.
    pub fn is_first_attempt(&self) -> bool {
        self.first_sent == self.sent && self.retries == 0 && self.not_sent == 0
    }

    /// Bytes of them.
    pub fn bytes(&self) -> u64 {
        self.shares.iter().map(|held| held.bytes).sum()
    }

    /// How much waits while it does.
    pub fn waiting(&self) -> Waiting {
        Waiting { requests: self.shares.len() as u64, operations: self.operations(), bytes: self.bytes() }
    }
}
