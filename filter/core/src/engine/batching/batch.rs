use std::rc::Rc;

use super::shards::Shards;
use super::{HeldShare, Key, Scope, Waiting};
use crate::Time;
use crate::engine::head::{CallerId, SlotClass};
use crate::routing::UpstreamId;

/// The shares that are sent to an upstream together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The upstream to which it is sent.
    pub upstream: UpstreamId,
    /// The caller of its requests.
    pub caller: CallerId,
    /// The slots that it takes.
    pub class: SlotClass,
    /// The shards whose operations may be in it.
    pub scope: Scope,
    /// Its shares, in the order in which they are sent.
    pub shares: Vec<HeldShare>,
    /// The hold that counts it as in flight, until it is settled or redirected.
    pub hold: Option<Key>,
    /// The time of the first attempt.
    pub first_sent: Time,
    /// The time of the last attempt.
    pub sent: Time,
    /// The number of attempts that could not be sent.
    pub not_sent: u8,
    /// The number of times that it was sent again after a node had received or refused it.
    pub retries: u32,
    /// Whether a node may already have carried it out.
    pub lost: bool,
    /// The address of its node, if the last attempt was sent to the Envoy cluster that has all nodes.
    pub address: Option<Rc<str>>,
    /// Whether it is not a bulk request but the request for a single document, as it arrived.
    pub is_original: bool,
    /// Whether it is out for [much longer than usual](super::SlowShards).
    pub is_late: bool,
}

impl Batch {
    /// Returns the shards to which its operations belong.
    pub fn shards(&self) -> Shards {
        self.shares.iter().map(|held| held.shards).collect()
    }

    /// Returns the number of its operations.
    pub fn operations(&self) -> u64 {
        self.shares.iter().map(|held| held.operations).sum()
    }

    /// Returns whether this is the first attempt of a batch that was not retried, redirected or separated.
    pub fn is_first_attempt(&self) -> bool {
        self.first_sent == self.sent && self.retries == 0 && self.not_sent == 0
    }

    /// Returns the bytes of its operations.
    pub fn bytes(&self) -> u64 {
        self.shares.iter().map(|held| held.bytes).sum()
    }

    /// Returns the amounts that wait while the batch waits.
    pub fn waiting(&self) -> Waiting {
        Waiting { requests: self.shares.len() as u64, operations: self.operations(), bytes: self.bytes() }
    }
}
