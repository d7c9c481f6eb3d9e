use std::fs;
use std::ops::Deref;
use std::path::Path;

use anyhow::Result;
use bulk_reshuffle_istio::{ApiServer, ISTIO_NAMESPACE, Istiod, Manifests, Module, yaml_in};
use bulk_reshuffle_stack::Tools;
use tempfile::TempDir;

use crate::pages;
use crate::place;
pub use crate::place::{LIMIT, NAMESPACE, PORT};

/// Kubernetes and Istio, and three real nodes at the addresses of a StatefulSet's pods.
pub struct Site {
    pub api: ApiServer,
    pub istiod: Istiod,
    pub module: Module,
    place: place::Site,
    _run_dir: TempDir,
}

impl Deref for Site {
    type Target = place::Site;

    fn deref(&self) -> &place::Site {
        &self.place
    }
}

impl Site {
    /// Starts everything. The nodes are not in Kubernetes yet: see [`Site::deploy`].
    pub async fn start() -> Result<Self> {
        let (tools, run_dir) = (Tools::find()?, tempfile::tempdir()?);
        let folder = |name: &str| run_dir.path().join(name);
        let module = Module::publish(&tools, &folder("module")).await?;
        let (place, (api, istiod)) = tokio::try_join!(place::Site::start(), control_plane(&tools, run_dir.path()))?;
        Ok(Self { api, istiod, module, place, _run_dir: run_dir })
    }

    /// Applies the example's StatefulSet and adds the nodes as its pods. Its Services have no endpoints: the API server
    /// rejects endpoints on loopback, and no manifest needs them.
    pub async fn deploy(&self) -> Result<()> {
        self.api.apply(&Manifests::read(&self.example("istio/examples/statefulset/opensearch.yaml")?)?).await?;
        for pod in &self.set.pods {
            self.api.add_pod(pod).await?;
        }
        Ok(())
    }

    /// Returns the text of a file of the checkout.
    pub fn example(&self, path: &str) -> Result<String> {
        Ok(fs::read_to_string(self.tools.root.join(path))?)
    }

    /// Replaces all Istio resources of the namespace.
    pub async fn replace(&self, manifests: &Manifests) -> Result<()> {
        const KINDS: &str = "gateways.networking.istio.io,virtualservices,serviceentries,destinationrules,sidecars,\
                             envoyfilters,wasmplugins,trafficextensions,peerauthentications";
        self.api.kubectl(&["delete", KINDS, "--all", "--namespace", NAMESPACE]).await?;
        self.api.apply(manifests).await
    }

    /// Stops istiod and the API server.
    pub async fn stop(self) -> Result<()> {
        self.istiod.stop().await?;
        self.api.stop().await
    }
}

/// Starts the API server with the manifests' kinds of resources, and istiod.
async fn control_plane(tools: &Tools, run_dir: &Path) -> Result<(ApiServer, Istiod)> {
    let api = ApiServer::start(tools, &run_dir.join("kubernetes")).await?;
    pages::make_namespace(&api).await?;
    for namespace in [ISTIO_NAMESPACE, NAMESPACE] {
        api.add_namespace(namespace).await?;
    }
    for schemas in ["istio-files", "gateway-schemas", "envoy-gateway-schemas", "eck-schemas"] {
        api.define(&yaml_in(&tools.folder(schemas)?)?).await?;
    }
    let istiod = Istiod::start(tools, &run_dir.join("istiod"), &api).await?;
    Ok((api, istiod))
}
