use std::time::Duration;

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::load::{Load, Writer};
use serde_json::{Value, json};

use crate::mesh::{ControlPlane, Mesh};
use crate::overlay::Overlay;
use crate::site::Site;
use crate::traffic::Traffic;

const CHANGES: usize = 5;

const SWITCHED_OFF: &str = "requests_total.outcome.passed_through.reason.switched_off";

/// The time of writing with each configuration.
const BETWEEN: Duration = Duration::from_millis(500);

impl<'a, C: ControlPlane<'a>> Mesh<'a, C> {
    /// Switches the filter off and on repeatedly while clients write. Every answer must be correct, and every
    /// configuration must take effect.
    pub async fn change_under_load(site: &'a Site<C::Servers>, overlay: &Overlay) -> Result<String> {
        let name = &format!("{}-update", overlay.name);
        let mesh = Self::start_splitting(site, name, overlay).await?;
        let url = mesh.url(&format!("/{name}/_bulk"));
        let sizes = (1..=10).map(|number| (number, if number < 9 { 1..=50 } else { 300..=600 }));
        let writer = |number, size| Writer::new(number, url.clone(), size, 200).asking_for(Self::SERVICE);
        let load = Load::start(name, sizes.map(|(number, size)| writer(number, size)));
        for _ in 0..CHANGES {
            mesh.change(overlay, &json!({"enabled": false}), SWITCHED_OFF).await?;
            mesh.change(overlay, &json!({"hold": {"interval": "20ms"}}), "batches_total").await?;
        }
        // Back to the first configuration.
        mesh.change(overlay, &json!({}), "batches_total").await?;
        let (ledger, tally) = load.end().await?;
        let found = site.nodes.documents(name).await?;
        let verified = ledger.verify(&found)?;
        ensure!(tally.broken.get() == 0 && tally.failed().is_empty(), "{tally}");
        mesh.end().await?;
        let (sent, acknowledged) = (tally.requests.get(), tally.acknowledged.get());
        Ok(format!(
            "{} changes: {sent} requests sent and answered, {acknowledged} operations acknowledged, {} documents \
             indexed, {verified} verified, none lost",
            2 * CHANGES + 1,
            found.len()
        ))
    }

    /// Delivers a changed configuration of the filter and waits until a counter shows that it takes effect.
    async fn change(&self, overlay: &Overlay, fields: &Value, counter: &str) -> Result<()> {
        let before = self.deliveries().await?;
        self.apply(&overlay.clone().with_configuration(fields)?).await?;
        self.wait_taken(before).await?;
        let count = self.counted(counter).await?;
        let effective = async || Ok((self.counted(counter).await? > count).then_some(()));
        self.wait_until("the new configuration takes effect", effective).await?;
        // Let the clients write with this configuration.
        tokio::time::sleep(BETWEEN).await;
        Ok(())
    }
}
