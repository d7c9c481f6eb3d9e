use std::path::Path;

use anyhow::Result;
use bulk_reshuffle_stack::Tools;

use crate::folder::Folder;
use crate::nodes::Nodes;
use crate::overlay::Overlay;
use crate::pod::Pod;
use crate::proxy::{Kind, Proxy};
use crate::site::{NAMESPACE, Site};
use crate::traffic::Traffic;

/// The control plane of a mesh: configures proxies with an overlay.
#[expect(async_fn_in_trait, reason = "callers await it on the same thread")]
pub trait ControlPlane<'a>: Sized {
    /// The servers that all meshes of a site share.
    type Servers: 'a;

    /// Whether the number of rejected configurations must be the number of faults.
    const COUNTS_REJECTIONS: bool;

    /// Sets the module's location in a folder's values.
    fn place_module(site: &Site<Self::Servers>, folder: &Folder) -> Result<()>;

    /// Starts the control plane with an overlay for a pod's proxy. Its logs are in a folder.
    async fn start(site: &'a Site<Self::Servers>, folder: &Path, overlay: &Overlay, pod: &Pod) -> Result<Self>;

    /// Starts the proxy of a pod and returns when it listens.
    async fn start_proxy(&self, tools: &Tools, folder: &Path, kind: Kind, pod: &Pod) -> Result<Proxy>;

    /// Applies an overlay in place of the current one.
    async fn apply(&self, overlay: &Overlay, pod: &Pod) -> Result<()>;
}

/// A proxy for clients, and the control plane that configures it.
pub struct Mesh<'a, C: ControlPlane<'a>> {
    pub site: &'a Site<C::Servers>,
    pub control_plane: C,
    pub proxy: Proxy,
    pod: Pod,
    is_named: bool,
}

impl<'a, C: ControlPlane<'a>> Traffic for Mesh<'a, C> {
    fn nodes(&self) -> &Nodes {
        &self.site.nodes
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn upstream(&self, node: &str) -> String {
        if self.is_named { format!("outbound|9200||{node}.es.internal") } else { node.to_owned() }
    }
}

impl<'a, C: ControlPlane<'a>> Mesh<'a, C> {
    /// Builds an overlay as shipped, except for the location of the module.
    pub fn shipped(site: &Site<C::Servers>, overlay: &'static str) -> Result<Overlay> {
        Self::overlay(site, overlay, |_| Ok(()))
    }

    /// Builds an overlay with a change to its folder, and sets the location of the module.
    pub fn overlay(
        site: &Site<C::Servers>,
        overlay: &'static str,
        change: impl FnOnce(&Folder) -> Result<()>,
    ) -> Result<Overlay> {
        let folder = Folder::shipped()?;
        C::place_module(site, &folder)?;
        change(&folder)?;
        Overlay::build(&site.set, overlay, &folder)
    }

    /// Starts the control plane with an overlay, then the proxy. Returns when the proxy listens.
    pub async fn start(site: &'a Site<C::Servers>, name: &str, overlay: &Overlay) -> Result<Self> {
        let pod = Pod::new(NAMESPACE, &format!("proxy-{name}"), overlay.labels(), site.network.address()?);
        let folder = site.folder(name);
        let control_plane = C::start(site, &folder, overlay, &pod).await?;
        let proxy = control_plane.start_proxy(&site.tools, &folder, overlay.kind, &pod).await?;
        Ok(Self { site, control_plane, proxy, pod, is_named: overlay.is_named })
    }

    /// Creates an index of this name and starts a mesh. Returns when every worker splits requests for the index.
    pub async fn start_splitting(site: &'a Site<C::Servers>, name: &str, overlay: &Overlay) -> Result<Self> {
        site.nodes.make_index(name).await?;
        let mesh = Self::start(site, name, overlay).await?;
        mesh.wait_splitting(name).await?;
        Ok(mesh)
    }

    /// Returns the name with which the mesh was started, for indices.
    pub fn name(&self) -> String {
        self.pod.name.trim_start_matches("proxy-").to_owned()
    }

    /// Returns whether each node has an upstream of its own.
    pub fn is_named(&self) -> bool {
        self.is_named
    }

    /// Starts the sidecars of other pods with the same control plane, and returns when they listen.
    pub async fn start_sidecars(&self, pods: &[Pod]) -> Result<Vec<Proxy>> {
        let mut sidecars = Vec::new();
        for pod in pods {
            let folder = self.site.folder(&format!("{}-{}", self.pod.name, pod.name));
            sidecars.push(self.control_plane.start_proxy(&self.site.tools, &folder, Kind::Sidecar, pod).await?);
        }
        Ok(sidecars)
    }

    /// Applies an overlay in place of the current one.
    pub async fn apply(&self, overlay: &Overlay) -> Result<()> {
        self.control_plane.apply(overlay, &self.pod).await
    }

    /// Checks that the filter did not fail, and stops everything.
    pub async fn end(self) -> Result<()> {
        self.proxy.check_filter().await
    }
}
