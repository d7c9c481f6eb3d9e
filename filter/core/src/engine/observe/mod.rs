//! Reports the engine's steps to operators. It changes nothing but metrics and the access log.

pub mod access_log;
pub mod batches;
