//! Istio before a real cluster. Without Kubernetes: istiod's own server, fed from files, configures a real Envoy as a
//! gateway or as a sidecar. Or all of it: the API server, istiod, and in each pod Istio's agent with its Envoy. Every
//! pod has a loopback address of its own, so that all ports are as the manifests say.

mod agent;
mod api_server;
mod container;
mod discovery;
mod envoy_gateway;
mod istiod;
mod manifests;
mod module;
mod network;
mod nodes;
mod pod;
mod proxy;
mod report;
mod traffic;

pub use agent::Agent;
pub use api_server::ApiServer;
pub use discovery::Discovery;
pub use envoy_gateway::{EnvoyGateway, GatewayProxy};
pub use istiod::{Istiod, NAMESPACE as ISTIO_NAMESPACE};
pub use manifests::{Manifests, yaml_in};
pub use module::Module;
pub use network::Network;
pub use nodes::Nodes;
pub use pod::Pod;
pub use proxy::{Kind, Proxy};
pub use report::Report;
pub use traffic::{Traffic, stats};
