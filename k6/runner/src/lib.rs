//! Runs the scripts in `k6/`, and starts the cluster and the Envoy that they need.

mod script;
mod site;

pub use script::Script;
pub use site::{Site, activity};
