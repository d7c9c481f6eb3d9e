//! Runs the scripts in `k6/`, with what they need around them.

mod activity;
mod script;
mod site;

pub use activity::Activity;
pub use script::Script;
pub use site::Site;
