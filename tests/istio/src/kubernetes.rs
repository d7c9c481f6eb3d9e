use std::path::Path;

use anyhow::Result;
use bulk_reshuffle_stack::Tools;

use crate::agent::start_agent;
use crate::api_server::ApiServer;
use crate::folder::Folder;
use crate::istiod::Istiod;
use crate::manifests::{Manifests, yaml_in};
use crate::mesh::ControlPlane;
use crate::module::Module;
use crate::overlay::Overlay;
use crate::pod::Pod;
use crate::proxy::{Kind, Proxy};
use crate::site::{NAMESPACE, Site};

/// The API server, the controller that configures proxies with its resources, and the module on its servers.
#[derive(Debug)]
pub struct Kubernetes<C> {
    pub api: ApiServer,
    /// The controller: istiod or Envoy Gateway.
    pub controller: C,
    pub module: Module,
}

impl<C> Kubernetes<C> {
    /// Publishes the module, starts the API server with the kinds of resources in these folders, and starts the
    /// controller.
    pub async fn start(
        tools: &Tools,
        run_dir: &Path,
        schemas: &[&str],
        controller: impl AsyncFnOnce(&ApiServer) -> Result<C>,
    ) -> Result<Self> {
        let module = Module::publish(tools, &run_dir.join("module")).await?;
        let api = ApiServer::start(tools, &run_dir.join("kubernetes")).await?;
        for folder in schemas {
            api.define(&yaml_in(&tools.folder(folder)?)?).await?;
        }
        let controller = controller(&api).await?;
        Ok(Self { api, controller, module })
    }
}

impl Site<Kubernetes<Istiod>> {
    /// Applies the example's StatefulSet and adds the nodes as its pods. Its Services have no endpoints: the API server
    /// rejects endpoints on loopback, and no manifest needs them.
    pub async fn deploy(&self) -> Result<()> {
        let example = self.text("istio/examples/statefulset/opensearch.yaml")?;
        self.servers.api.apply(&Manifests::read(&example)?).await?;
        for pod in &self.set.pods {
            self.servers.api.add_pod(pod).await?;
        }
        Ok(())
    }
}

impl<'a> ControlPlane<'a> for &'a Kubernetes<Istiod> {
    type Servers = Kubernetes<Istiod>;
    const COUNTS_REJECTIONS: bool = false;

    fn place_module(site: &Site<Self::Servers>, folder: &Folder) -> Result<()> {
        site.servers.module.put_into(folder)
    }

    /// Replaces all Istio resources of the namespace and its pods, except the nodes. A Service of gateways would still have
    /// the address of one that has ended.
    async fn start(site: &'a Site<Self::Servers>, _folder: &Path, overlay: &Overlay, pod: &Pod) -> Result<Self> {
        const KINDS: &str = "gateways.networking.istio.io,virtualservices,serviceentries,destinationrules,sidecars,\
                             envoyfilters,wasmplugins,trafficextensions,peerauthentications,authorizationpolicies,\
                             gateways.gateway.networking.k8s.io,httproutes";
        let api = &site.servers.api;
        let others = ["--selector", "app!=es", "--namespace", NAMESPACE, "--force", "--grace-period=0"];
        api.kubectl(&[&["delete", "pods"], &others[..]].concat()).await?;
        api.add_pod(pod).await?;
        let manifests = overlay.bound(pod)?;
        api.kubectl(&["delete", KINDS, "--all", "--namespace", NAMESPACE]).await?;
        api.apply(&manifests).await?;
        Ok(&site.servers)
    }

    async fn start_proxy(&self, tools: &Tools, folder: &Path, kind: Kind, pod: &Pod) -> Result<Proxy> {
        start_agent(tools, folder, kind, pod, &self.api, &self.controller).await
    }

    async fn apply(&self, overlay: &Overlay, pod: &Pod) -> Result<()> {
        self.api.apply(&overlay.bound(pod)?).await
    }
}
