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

mod clients;
mod discovery;
pub mod envoy_config;
mod example_clients;
mod guarded;
pub mod gzip;
pub mod lines;
pub mod load;
mod nodes;
pub mod relay;
mod releases;
mod scene;
mod secured;
mod shared_clusters;
mod shipped;
mod step;
mod unpacked_program;

pub use clients::{Http2Client, RawClient, TlsClient, raise_file_limit};
pub use discovery::{HostFile, NameServer};
pub use example_clients::{ExampleClients, go_environment};
pub use guarded::{Authority, GuardedNodes, Guests, Identity, basic, tls_options};
pub use nodes::{
    ClusterScript, FakeCluster, Gate, Index, Item, Items, QuickItem, QuickItems, Reaction, Received, Recorded,
};
pub use relay::Wiretap;
pub use releases::{chosen_releases, named_releases};
pub use scene::{
    Answer, ListenerFile, RealScene, Scene, SceneOptions, bulk_request, check_filter, forced_trap, replace_file,
    replace_in_file, transport_bytes,
};
pub use secured::{Administrator, SecuredCluster};
pub use shared_clusters::{LentCluster, Nodes, SharedClusters, in_front_of};
pub use shipped::{KubernetesPod, ShippedFiles, block_of_page, gateway_files, reach_nodes_by_http2, yaml_of_page};
pub use step::{Step, last_index, with};
pub use unpacked_program::UnpackedProgram;
