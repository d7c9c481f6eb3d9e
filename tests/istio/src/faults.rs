use anyhow::{Result, ensure};
use serde_json::json;

use crate::mesh::{ControlPlane, Mesh};
use crate::overlay::Overlay;
use crate::site::Site;
use crate::traffic::Traffic;

/// A fault in delivered manifests: a module or a configuration that Envoy cannot use.
#[derive(Debug)]
pub struct Fault {
    /// The part with the fault.
    pub name: &'static str,
    pub overlay: Overlay,
    /// A text that the proxy logs, and further texts that must be in its line.
    pub log: Option<(&'static str, Vec<String>)>,
}

impl Fault {
    /// Creates a fault after which the proxy's log is not checked.
    pub fn new(name: &'static str, overlay: Overlay) -> Self {
        Self { name, overlay, log: None }
    }

    /// Waits until the proxy has rejected this number of configurations, and checks its log.
    async fn wait_refused(&self, mesh: &impl Traffic, count: u64) -> Result<()> {
        mesh.wait_refused(count).await?;
        if let Some((text, others)) = &self.log {
            let line = mesh.wait_logged(text).await?;
            ensure!(
                others.iter().all(|other| line.contains(other)),
                "not all of {others:?} are in the log line: {line}"
            );
        }
        Ok(())
    }
}

impl<'a, C: ControlPlane<'a>> Mesh<'a, C> {
    /// Returns an overlay with a configuration that the filter rejects.
    pub fn wrong_configuration(site: &Site<C::Servers>, overlay: &Overlay) -> Result<Fault> {
        let fields = json!({"hold": {"interval": 50}});
        Ok(Fault::new("configuration", Self::overlay(site, overlay.name, |folder| folder.configure(&fields))?))
    }

    /// Starts a proxy with each of the faults. It must listen, and requests must pass without the filter. Then the
    /// proxy gets working manifests.
    pub async fn start_with_faults(
        site: &'a Site<C::Servers>,
        overlay: &Overlay,
        faults: impl IntoIterator<Item = Fault>,
    ) -> Result<String> {
        for fault in faults {
            let split = &format!("{}-cold-{}", overlay.name, fault.name);
            let plain = &format!("{split}-plain");
            // The proxy knows the indices from the start.
            for index in [plain, split] {
                site.nodes.make_index(index).await?;
            }
            let mesh = Self::start(site, split, &fault.overlay).await?;
            fault.wait_refused(&mesh, 1).await?;
            mesh.check_pass(plain).await?;
            mesh.recover(overlay, split).await?;
        }
        Ok("each fault is rejected and requests pass without the filter; after the fix, they are split".to_owned())
    }

    /// Delivers one fault after the other to a working proxy, which must keep its configuration. Then it gets the first
    /// configuration again.
    pub async fn deliver_faults<const N: usize>(&self, overlay: &Overlay, faults: [Fault; N]) -> Result<String> {
        let name = &format!("{}-later", overlay.name);
        let index = |fault: &Fault| format!("{name}-{}", fault.name);
        for index in faults.iter().map(index).chain([name.clone()]) {
            self.site.nodes.make_index(&index).await?;
        }
        self.wait_splitting(name).await?;
        let (_, before) = self.deliveries().await?;
        for (fault, count) in faults.iter().zip(1..) {
            self.apply(&fault.overlay).await?;
            fault.wait_refused(self, before + count).await?;
            self.check_split(&index(fault)).await?;
        }
        let (accepted, after) = self.deliveries().await?;
        let rejected = after - before;
        ensure!(!C::COUNTS_REJECTIONS || rejected == N as u64, "{accepted} accepted, {rejected} rejected");
        self.recover(overlay, name).await?;
        Ok("each fault is rejected and requests are still split, also after the rollback".to_owned())
    }

    /// Delivers a working overlay after faults: requests must be split.
    async fn recover(&self, overlay: &Overlay, index: &str) -> Result<()> {
        let before = self.deliveries().await?;
        self.apply(overlay).await?;
        self.wait_taken(before).await?;
        self.wait_splitting(index).await?;
        self.check_split(index).await.map(|_| ())
    }
}
