//! The check of where upstreams lead.
//!
//! Envoy's configuration decides where an upstream leads, and may be wrong. Nothing else would show that: a node
//! forwards what it gets for another node, and a node of another cluster may even carry it out. One worker therefore asks
//! each upstream which node answers, and publishes the outcomes for all workers.

mod upstream_check;
mod upstream_checks;

pub use upstream_check::{CheckResult, Silence, UpstreamCheck};
pub(crate) use upstream_checks::{Meant, UpstreamChecks};
