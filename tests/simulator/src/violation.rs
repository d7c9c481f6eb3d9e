use std::fmt;

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub promise: Promise,
    /// What happened.
    pub detail: String,
}

/// What is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Promise {
    /// Each request is answered or passed through exactly once, and nothing happens to it afterwards.
    AnsweredOnce,
    /// No answer before the nodes have answered.
    NotEarly,
    /// A reply holds the request's own items, true and in its order.
    OwnItems,
    /// A reply carries the headers that clients check.
    Headers,
    /// An operation is sent again only where that is allowed.
    SentOnce,
    /// A batch is one caller's, under its path and headers.
    CallersApart,
    /// Operations leave byte for byte.
    SameBytes,
    /// A request's operations on a document keep their order, and its share for a node travels in one batch.
    Order,
    /// A batch is for one shard, where that is asked for.
    OneShard,
    /// An operation goes to the node that owns its document.
    Owner,
    /// A request that is not vouched for passes on whole, before anything of it is sent; and no other.
    PassedWhole,
    /// Nothing is sent for a client that left before.
    GoneIsGone,
    /// Memory stays within its budget.
    Memory,
    /// Replies in a callback and batches on their way are bounded.
    Bounds,
    /// Headers are held back only as long as it takes to find out whether a body comes.
    HeaderPause,
    /// Identities take turns at a node, and so do the callers of each.
    Turns,
    /// No identity keeps another's requests from a node for longer than an interval.
    Fairness,
    /// What is held leaves in time.
    Interval,
    /// What has changed in the cluster is known to all engines in time.
    Fresh,
    /// One engine asks the cluster for all.
    AskedOnce,
    /// In the end nothing is left.
    Drained,
}

impl Violation {
    /// A promise was broken.
    pub fn of(promise: Promise, detail: impl Into<String>) -> Self {
        Self { promise, detail: detail.into() }
    }

    /// A promise was broken unless this holds.
    pub fn unless(holds: bool, promise: Promise, detail: impl FnOnce() -> String) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::of(promise, detail())) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:?}: {}", self.promise, self.detail)
    }
}
