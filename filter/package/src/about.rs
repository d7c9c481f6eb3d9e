//! What the module and its image say about themselves, under the names of the OCI annotations.

pub const DESCRIPTION: &str = "An Envoy filter that makes bulk writes to Elasticsearch and OpenSearch cheaper.";
pub const LICENSES: &str = env!("CARGO_PKG_LICENSE");
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
