//! Tests of the manifests with the real API server, and with the controllers that users have.

mod envoy_gateway;
mod istio;
