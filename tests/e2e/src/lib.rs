//! The filter in the real Envoy, in front of a cluster that answers, delays, refuses, disconnects or lies as the test
//! scripts it.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use bulk_reshuffle_e2e::{ClusterScript, Reaction, Scene, lines};
//!
//! let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
//! scene.cluster.react(|request| match request.node {
//!     1 => Reaction::Reset,
//!     _ => Reaction::items(),
//! });
//! let answer = scene.bulk("/_bulk", lines::index("books", "1", 7)).await?;
//! println!("{} after {} batches", answer.status, scene.cluster.bulks().len());
//! scene.finish().await
//! # }
//! ```

mod answer;
mod authority;
mod cluster_script;
mod fake_cluster;
mod fake_node;
mod file_limit;
mod forced_trap;
mod gate;
mod gateway_files;
mod guarded_nodes;
mod health;
mod http2_client;
mod http2_nodes;
mod index;
mod item;
mod items;
mod journal;
mod kubernetes_pod;
pub mod lines;
mod listener_file;
pub mod load;
mod page;
mod quick_items;
mod raw_client;
mod reaction;
mod received;
mod recorded;
mod scene;
mod scene_options;
mod shipped_files;
mod tls_client;
mod wiretap;

pub use answer::Answer;
pub use authority::{Authority, Identity};
pub use cluster_script::ClusterScript;
pub use fake_cluster::FakeCluster;
pub use file_limit::raise_file_limit;
pub use forced_trap::forced_trap;
pub use gate::Gate;
pub use gateway_files::gateway_files;
pub use guarded_nodes::{GuardedNodes, Guests, basic};
pub use health::check_filter;
pub use http2_client::Http2Client;
pub use http2_nodes::reach_nodes_by_http2;
pub use index::Index;
pub use item::Item;
pub use items::Items;
pub use kubernetes_pod::KubernetesPod;
pub use listener_file::ListenerFile;
pub use page::yaml_of_page;
pub use quick_items::{QuickItem, QuickItems};
pub use raw_client::RawClient;
pub use reaction::Reaction;
pub use received::Received;
pub use recorded::Recorded;
pub use scene::Scene;
pub use scene_options::SceneOptions;
pub use shipped_files::ShippedFiles;
pub use tls_client::TlsClient;
pub use wiretap::Wiretap;
