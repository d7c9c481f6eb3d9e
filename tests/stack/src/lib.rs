//! Starts the real programs on loopback for the demo and the tests: a cluster of OpenSearch or Elasticsearch nodes,
//! each in a separate process, and Envoy with the shipped configuration.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, Envoy, EnvoyOptions, Tools};
//!
//! let tools = Tools::find()?;
//! let run_dir = std::path::Path::new("/tmp/run");
//! let cluster = Cluster::start(&tools, ClusterOptions::new(run_dir)).await?;
//! let envoy = Envoy::start(&tools, EnvoyOptions::new(run_dir).in_front_of(&cluster)).await?;
//! let health = Client::new().get(&envoy.url("/_cluster/health")).await?.json()?;
//! println!("{health}, {} requests", envoy.counter("http.elasticsearch.downstream_rq_total").await?);
//! envoy.stop().await?;
//! cluster.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A child process ends when its value is dropped, and when this process ends in any way. The exception is a process
//! that was started with [`Lifetime::Independent`] and left running: [`stop_left_running`] stops it.
#![warn(missing_docs)]

mod account;
mod client;
mod cluster;
mod config;
mod counters;
mod distribution;
mod envoy;
mod launcher;
mod memory_folder;
mod network;
mod node;
mod pieces;
pub mod port;
mod private_network;
mod process;
mod shared_envoy;
mod signals;
mod tools;
pub mod wait;
mod workspace;

pub use client::{Client, Response};
pub use cluster::{Cluster, ClusterOptions, Profile, Security};
pub use config::{FilterConfig, merge};
pub use counters::{Counters, of_all_filters};
pub use distribution::Distribution;
pub use envoy::{Envoy, EnvoyOptions};
pub use launcher::Launcher;
pub use network::Network;
pub use private_network::{enter_private_network, is_network_private};
pub use process::{Lifetime, Process, ProcessRecord};
pub use signals::ended_by_signal;
pub use tools::Tools;
pub use workspace::{SharedFolder, folder_of_this_process, stop_left_running};
