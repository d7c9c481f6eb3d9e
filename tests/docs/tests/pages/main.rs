//! Checks of the pages that need neither a cluster nor a browser.

mod commands;
mod documents;
mod help;
mod libraries;
mod links;
mod schema;
mod versions;
mod workflows;
