//! What writers notice of outages and of planned changes: through Envoys with the filter, through an Envoy without it,
//! and without a proxy. They write to the same three OpenSearch nodes at the same time.
//!
//! Every document is compared afterwards with the answers that its writer received.

mod black_hole;
mod killed_envoy;
mod lost_packets;
mod module;
mod modules;
mod noticed;
mod proxy;
mod rolling_restart;
mod rollout;
mod scene;
mod stage;
mod way;
mod work;
mod writer;
mod writers;

/// A limit far above the duration of any step here, even on a busy machine.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(120);
