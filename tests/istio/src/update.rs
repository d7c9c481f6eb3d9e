use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::load::{Load, Writer};
use serde_json::{Value, json};

use crate::mesh::{ControlPlane, Mesh};
use crate::overlay::Overlay;
use crate::traffic::Traffic;

const CHANGES: usize = 5;

const SWITCHED_OFF: &str = "requests_total.outcome.passed_through.reason.switched_off";

const WRITERS: u64 = 10;

/// The requests that clients send with each configuration: a few by each writer.
const BETWEEN: u64 = 3 * WRITERS;

impl<'a, C: ControlPlane<'a>> Mesh<'a, C> {
    /// Switches the filter off and on repeatedly while clients write. Every answer must be correct, and every
    /// configuration must take effect.
    pub async fn change_under_load(&self, overlay: &Overlay) -> Result<String> {
        let name = &format!("{}-update", overlay.name);
        self.site.nodes.make_index(name).await?;
        self.wait_splitting(name).await?;
        let url = self.url(&format!("/{name}/_bulk"));
        let sizes = (1..=WRITERS).map(|number| (number, if number < 9 { 1..=50 } else { 300..=600 }));
        let writer = |number, size| Writer::new(number, url.clone(), size, 200).asking_for(Self::SERVICE);
        let load = Load::start(name, sizes.map(|(number, size)| writer(number, size)));
        let changed = |fields: Value| Self::overlay(self.site, overlay.name, |folder| folder.configure(&fields));
        let off = changed(json!({"enabled": false}))?;
        let on = changed(json!({"hold": {"interval": "20ms"}}))?;
        let mut slowest = Duration::ZERO;
        for _ in 0..CHANGES {
            slowest = slowest.max(self.change(&off, SWITCHED_OFF, &load).await?);
            self.change(&on, "batches_total", &load).await?;
        }
        // Back to the first configuration.
        self.change(overlay, "batches_total", &load).await?;
        let (ledger, tally) = load.end().await?;
        let found = self.site.nodes.documents(name).await?;
        let verified = ledger.verify(&found)?;
        ensure!(tally.broken.get() == 0 && tally.failed().is_empty(), "{tally}");
        let (sent, acknowledged) = (tally.requests.get(), tally.acknowledged.get());
        Ok(format!(
            "{} changes: {sent} requests sent and answered, {acknowledged} operations acknowledged, {} documents \
             indexed, {verified} verified, none lost; switched off {slowest:.1?} after the change at most",
            2 * CHANGES + 1,
            found.len()
        ))
    }

    /// Delivers a changed configuration of the filter and waits until a counter shows that it takes effect, and until
    /// the clients have written with it. Returns the time until it takes effect.
    async fn change(&self, overlay: &Overlay, counter: &str, load: &Load) -> Result<Duration> {
        let (before, begun) = (self.deliveries().await?, Instant::now());
        self.apply(overlay).await?;
        self.wait_taken(before).await?;
        let count = self.counted(counter).await?;
        let effective = async || Ok((self.counted(counter).await? > count).then_some(()));
        self.wait_until("the new configuration takes effect", effective).await?;
        let took = begun.elapsed();
        let sent = load.tally.requests.get();
        let written = async || Ok((load.tally.requests.get() >= sent + BETWEEN).then_some(()));
        self.wait_until("the clients write with the new configuration", written).await?;
        Ok(took)
    }
}
