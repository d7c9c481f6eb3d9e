use std::path::Path;

use anyhow::Result;
use bulk_reshuffle_istio::{ISTIO_NAMESPACE, Istiod, Kubernetes, NAMESPACE};
use bulk_reshuffle_stack::Tools;

use super::pages;

/// Starts the API server with the manifests' kinds of resources, and istiod. The nodes are not in Kubernetes yet: see
/// [`Site::deploy`](bulk_reshuffle_istio::Site::deploy).
pub async fn start(tools: &Tools, run_dir: &Path) -> Result<Kubernetes<Istiod>> {
    let schemas = ["istio-files", "gateway-schemas", "envoy-gateway-schemas", "eck-schemas"];
    Kubernetes::start(tools, run_dir, &schemas, async |api| {
        pages::make_namespace(api).await?;
        for namespace in [ISTIO_NAMESPACE, NAMESPACE] {
            api.add_namespace(namespace).await?;
        }
        Istiod::start(tools, &run_dir.join("istiod"), api).await
    })
    .await
}
