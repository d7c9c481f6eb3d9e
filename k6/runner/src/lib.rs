//! Runs the scripts in `k6/`, and starts the cluster and the Envoy that they need.

mod activity;
mod script;
mod site;

pub use activity::Activity;
pub use script::Script;
pub use site::Site;
