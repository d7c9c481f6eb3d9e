//! Tests of the manifests with istiod's own server, which reads files.

mod delivery;
mod manifests;
mod replicas;
