use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub promise: Promise,
    pub detail: String,
}

/// A promise that is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Promise {
    /// Each request is answered or passed through exactly once, and nothing happens to it afterwards.
    AnsweredOnce,
    /// A request is not answered before its nodes have answered.
    NotEarly,
    /// A reply holds the request's own items, true and in its order.
    OwnItems,
    /// A reply carries the headers that clients check.
    Headers,
    /// An operation is retried only where that is allowed.
    SentOnce,
    /// A batch is of one caller, with its path and headers.
    CallersApart,
    /// Operations leave byte for byte unchanged.
    SameBytes,
    /// A request's operations on a document keep their order, and its share for a node travels in one batch.
    Order,
    /// A batch is for one shard, if so configured.
    OneShard,
    /// An operation goes to the node that owns its document.
    Owner,
    /// A request that the filter does not vouch for passes through unchanged, before anything of it is sent. No other
    /// request does.
    PassedWhole,
    /// Nothing is sent for a client that has left.
    GoneIsGone,
    /// Memory stays within its budget.
    Memory,
    /// The replies in a callback and the batches in flight are limited.
    Bounds,
    /// Headers are held back only until it is known whether a body arrives.
    HeaderPause,
    /// Identities go in round-robin order at a node, and so do the callers of each.
    RoundRobin,
    /// No identity delays another's requests to a node for longer than an interval.
    Fairness,
    /// Held shares leave in time.
    Interval,
    /// No share waits for a slow shard that it does not touch, beyond one batch and the time after which that is late.
    SlowShards,
    /// All engines learn of changes in the cluster in time.
    Fresh,
    /// One engine polls the cluster for all.
    AskedOnce,
    /// At the end nothing is left.
    Drained,
}

impl Violation {
    pub fn of(promise: Promise, detail: impl Into<String>) -> Self {
        Self { promise, detail: detail.into() }
    }

    /// Returns a violation unless this holds.
    pub fn unless(holds: bool, promise: Promise, detail: impl FnOnce() -> String) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::of(promise, detail())) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:?}: {}", self.promise, self.detail)
    }
}
