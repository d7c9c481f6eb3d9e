use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The verdicts on all pipelines of a cluster, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipelines(pub(super) BTreeMap<Box<str>, Result<Harmless, Unproven>>);

/// The verdict on a pipeline that leaves the index, the id and the routing value of every document alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Harmless {
    /// Whether it may read the id or the routing value. The cluster generates an id only after the pipeline, so such a
    /// pipeline could notice an id that the filter has added.
    pub reads_id: bool,
}

impl Harmless {
    /// Returns the verdict on two pipelines that both run.
    pub fn and(self, other: Self) -> Self {
        Self { reads_id: self.reads_id || other.reads_id }
    }
}

/// The reason why it is not proven that a pipeline is harmless, as a clause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unproven(Box<str>);

/// The most characters of a reason. The names in it come from the cluster.
const LONGEST_REASON: usize = 200;

impl Unproven {
    pub(super) fn new(reason: &str) -> Self {
        Self(reason.chars().take(LONGEST_REASON).collect::<String>().into())
    }
}

impl fmt::Display for Unproven {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl Pipelines {
    /// Returns the verdict on a pipeline, or `None` if the cluster does not have it.
    pub fn verdict(&self, name: &str) -> Option<&Result<Harmless, Unproven>> {
        self.0.get(name)
    }

    /// Returns all verdicts, by name.
    pub fn verdicts(&self) -> impl ExactSizeIterator<Item = (&str, &Result<Harmless, Unproven>)> {
        self.0.iter().map(|(name, verdict)| (name.as_ref(), verdict))
    }
}
