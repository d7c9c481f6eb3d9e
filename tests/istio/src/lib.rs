//! Istio or Envoy Gateway in front of a real cluster. A [`Site`] has the nodes, and the servers that all tests share. A
//! [`Mesh`] is a real Envoy as a gateway or a sidecar, and its [`ControlPlane`]. Without Kubernetes, that is istiod's
//! own server, which reads files. With it, that is the API server and istiod, with Istio's agent in each pod.
//! [`Traffic`] sends requests through any of the proxies. Every pod has its own local address, so all ports are those
//! of the manifests.

mod agent;
mod api_server;
mod container;
mod direct_proxy;
mod discovery;
mod envoy_gateway;
mod faults;
mod folder;
mod gate;
mod istiod;
mod kubernetes;
mod manifests;
mod mesh;
mod module;
mod nodes;
mod overlay;
mod pod;
mod process;
mod proxy;
mod report;
mod secret_volume;
mod site;
mod traffic;
mod update;

pub use api_server::ApiServer;
pub use bulk_reshuffle_stack::Network;
pub use discovery::Discovery;
pub use envoy_gateway::EnvoyGateway;
pub use faults::Fault;
pub use folder::{Folder, OVERLAYS};
pub use gate::Gate;
pub use istiod::{Istiod, NAMESPACE as ISTIO_NAMESPACE};
pub use kubernetes::Kubernetes;
pub use manifests::{Manifests, yaml_in};
pub use mesh::{ControlPlane, Mesh};
pub use module::Module;
pub use nodes::Nodes;
pub use overlay::Overlay;
pub use pod::{Pod, StatefulSet};
pub use proxy::{Kind, Proxy};
pub use report::Report;
pub use secret_volume::SecretVolume;
pub use site::{NAMESPACE, Site};
pub use traffic::{COORDINATOR, Traffic, wide};

use std::time::Duration;

/// A generous time limit, even on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);
