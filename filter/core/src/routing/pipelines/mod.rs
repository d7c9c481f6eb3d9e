//! Ingest pipelines: which of them provably leave the place of a document alone.
//!
//! A pipeline may change the index, the id and the routing value of a document, and then another node owns it. The
//! filter splits operations under a pipeline only if none of its processors can write these fields. [`Pipelines`] has
//! the verdict on each pipeline of the cluster, with the reason where there is no proof.
//!
//! The rules come from the processors of Elasticsearch 7.10 to 9.5 and OpenSearch 1.3 to 3.8. A processor or an option
//! that is not in the table of [`processor`] proves nothing.

mod definitions;
mod processor;
#[cfg(test)]
mod tests;
mod texts;
mod verdict;

pub(crate) use definitions::Definitions;
pub(crate) use texts::may_have_metadata;
pub use verdict::{Harmless, Pipelines, Unproven};
