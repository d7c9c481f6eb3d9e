//! Sources from which Envoy learns the hosts of an upstream, while it runs: see
//! [`discover_hosts`](crate::envoy_config::discover_hosts).

mod host_file;
mod name_server;

pub use host_file::HostFile;
pub use name_server::NameServer;
