//! Istio without Kubernetes: istiod's own server, fed from files, configures a real Envoy as a gateway or as a
//! sidecar. Every pod has a loopback address of its own, so that all ports are as the manifests say.

mod discovery;
mod manifests;
mod network;
mod pod;
mod proxy;

pub use discovery::Discovery;
pub use manifests::Manifests;
pub use network::Network;
pub use pod::Pod;
pub use proxy::{Kind, Proxy};
