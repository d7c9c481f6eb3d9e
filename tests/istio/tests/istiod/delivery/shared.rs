use anyhow::Result;
use bulk_reshuffle_istio::{Overlay, Report};

use super::{Mesh, Site};

/// A mesh that several rows of an overlay use one after the other: in each new process, Envoy compiles the filter for
/// seconds. It starts with the first wanted row. Each row leaves it with the overlay as shipped. A row that fails ends
/// it, and the next row gets a new one.
pub struct Shared<'a> {
    site: &'a Site,
    report: &'a Report,
    overlay: &'a Overlay,
    mesh: Option<Mesh<'a>>,
}

impl<'a> Shared<'a> {
    /// Creates a mesh that does not run yet.
    pub fn new(site: &'a Site, report: &'a Report, overlay: &'a Overlay) -> Self {
        Self { site, report, overlay, mesh: None }
    }

    /// Runs a test, checks that the filter did not fail, and adds the row.
    pub async fn add(&mut self, delivery: &str, test: impl AsyncFnOnce(&Mesh<'a>, &Overlay) -> Result<String>) {
        let (report, name) = (self.report, &self.overlay.title());
        let row = async {
            let mesh = self.take().await?;
            let proven = test(&mesh, self.overlay).await?;
            mesh.proxy.check_filter().await?;
            self.mesh = Some(mesh);
            Ok(proven)
        };
        report.add(name, delivery, row).await;
    }

    /// Runs the last test, after which Envoy's log has errors about rejected configurations. Stops the mesh.
    pub async fn end(mut self, delivery: &str, test: impl AsyncFnOnce(&Mesh<'a>, &Overlay) -> Result<String>) {
        let (report, name) = (self.report, &self.overlay.title());
        report.add(name, delivery, async { test(&self.take().await?, self.overlay).await }).await;
    }

    async fn take(&mut self) -> Result<Mesh<'a>> {
        match self.mesh.take() {
            Some(mesh) => Ok(mesh),
            None => Mesh::start(self.site, &self.overlay.unique_name(), self.overlay).await,
        }
    }
}
