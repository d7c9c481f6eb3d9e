//! Tests of the manifests with Istio's programs, and with what users have beside them.

mod istiod;
mod kubernetes;
