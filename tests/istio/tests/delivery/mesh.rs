use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{check_filter, lines};
use bulk_reshuffle_istio::{Discovery, Kind, Manifests, Pod, Proxy};
use bulk_reshuffle_stack::{Client, wait};
use serde_json::{Value, json};

use crate::site::{LIMIT, NAMESPACE, PORT, Site};

/// So many that hardly ever all of them belong to the same of a proxy's workers.
const CONNECTIONS: u64 = 16;

/// What stays the same in all that is delivered to a proxy.
struct Place {
    pod: Pod,
    wasm: PathBuf,
}

/// A proxy, and istiod that delivers manifests to it.
pub struct Mesh<'a> {
    pub site: &'a Site,
    pub proxy: Proxy,
    discovery: Discovery,
    place: Place,
}

impl<'a> Mesh<'a> {
    /// Starts both; returns when the proxy listens.
    pub async fn start(site: &'a Site, name: &str, kind: Kind, manifests: &Manifests) -> Result<Self> {
        Self::start_with(site, name, kind, manifests, site.tools.wasm()?).await
    }

    /// The same with another module.
    pub async fn start_with(
        site: &'a Site,
        name: &str,
        kind: Kind,
        manifests: &Manifests,
        wasm: &Path,
    ) -> Result<Self> {
        let labels = match kind {
            Kind::Gateway => [("istio".to_owned(), json!("ingressgateway"))],
            Kind::Sidecar => [("app".to_owned(), json!("client"))],
        };
        let pod = Pod::new(NAMESPACE, &format!("proxy-{name}"), labels.into_iter().collect(), site.network.address()?);
        let place = Place { pod, wasm: wasm.canonicalize()? };
        let folder = site.folder(name);
        let discovery = Discovery::start(&site.tools, &folder, &place.complete(site, manifests)?).await?;
        let proxy = Proxy::start(&site.tools, &folder, kind, &place.pod, PORT, &discovery).await?;
        proxy.wait_listening().await.with_context(|| discovery.log())?;
        Ok(Self { site, proxy, discovery, place })
    }

    /// Delivers these manifests from now on.
    pub async fn apply(&self, manifests: &Manifests) -> Result<()> {
        self.discovery.apply(&self.place.complete(self.site, manifests)?).await
    }

    /// The same with another module.
    pub async fn apply_with(&self, manifests: &Manifests, wasm: &Path) -> Result<()> {
        let place = Place { pod: self.place.pod.clone(), wasm: wasm.canonicalize()? };
        self.discovery.apply(&place.complete(self.site, manifests)?).await
    }

    /// Waits until every worker splits requests for an index.
    pub async fn wait_splitting(&self, index: &str) -> Result<()> {
        const MERGED: &str = "requests_merged_total";
        wait::until(LIMIT, "every worker splits requests", async || {
            let before = self.counted(MERGED).await?;
            for _ in 0..CONNECTIONS {
                // A connection belongs to one worker, so each try needs a new one.
                self.bulk(&Client::new(), lines::delete(index, "nothing")).await?;
            }
            Ok((self.counted(MERGED).await? == before + CONNECTIONS).then_some(()))
        })
        .await
        .with_context(|| self.proxy.envoy.process().log_extract())
    }

    /// A counter of the filter's, over all labels that are not part of the name.
    pub async fn counted(&self, name: &str) -> Result<u64> {
        self.sum(&format!("bulk_reshuffle_{name}")).await
    }

    /// A counter of the filter's by label: upstream or reason.
    pub async fn counted_by(&self, name: &str, label: &str) -> Result<BTreeMap<String, u64>> {
        let prefix = format!("wasmcustom.bulk_reshuffle_{name}_total.{label}.");
        let stats = self.proxy.envoy.stats_with(&format!("bulk_reshuffle_{name}_total")).await?;
        Ok(stats
            .into_iter()
            .filter_map(|(name, count)| Some((name.strip_prefix(&prefix)?.to_owned(), count)))
            .collect())
    }

    /// How often the proxy has taken a new configuration of the filter, and how often it has refused one.
    pub async fn deliveries(&self) -> Result<(u64, u64)> {
        let taken = self.sum("extension_config_discovery.*update_success").await?;
        Ok((taken, self.sum("extension_config_discovery.*update_rejected").await?))
    }

    /// Waits until the proxy has taken or refused a configuration since then.
    pub async fn wait_delivered(&self, since: (u64, u64)) -> Result<()> {
        let delivered = async || Ok((self.deliveries().await? != since).then_some(()));
        wait::until(LIMIT, "a configuration is delivered", delivered).await
    }

    /// Waits until the proxy has taken a configuration since then.
    pub async fn wait_taken(&self, since: (u64, u64)) -> Result<()> {
        let taken = async || Ok((self.deliveries().await?.0 > since.0).then_some(()));
        wait::until(LIMIT, "the proxy takes the configuration", taken).await
    }

    /// Ends both; the filter must have come through it unharmed.
    pub async fn end(self) -> Result<()> {
        check_filter(&self.proxy.envoy).await?;
        self.end_refused().await
    }

    /// Ends both, after Envoy has complained of what it was delivered.
    pub async fn end_refused(self) -> Result<()> {
        self.proxy.envoy.stop().await?;
        self.discovery.stop().await
    }

    async fn sum(&self, regex: &str) -> Result<u64> {
        Ok(self.proxy.envoy.stats_with(regex).await?.values().sum())
    }
}

impl Place {
    /// The manifests with this machine's values, and what surrounds them in a cluster.
    fn complete(&self, site: &Site, manifests: &Manifests) -> Result<Manifests> {
        let mut complete = manifests.clone();
        complete.set_module(&self.wasm)?;
        let address = json!(self.pod.address.to_string());
        for gateway in complete.all_mut("Gateway") {
            for server in gateway["spec"]["servers"].as_array_mut().context("a gateway without servers")? {
                server["bind"] = address.clone();
            }
        }
        for sidecar in complete.all_mut("Sidecar") {
            for listener in sidecar["spec"]["egress"].as_array_mut().context("a sidecar without egress")? {
                // Nothing here redirects what a client sends elsewhere.
                listener["captureMode"] = json!("NONE");
                listener["bind"] = address.clone();
            }
        }
        Ok(complete.with(site.objects.clone()).with([self.pod.object(), plain_text()]))
    }
}

/// There is no CA here that could give pods certificates.
fn plain_text() -> Value {
    json!({
        "apiVersion": "security.istio.io/v1",
        "kind": "PeerAuthentication",
        "metadata": {"name": "plain-text", "namespace": "istio-system"},
        "spec": {"mtls": {"mode": "DISABLE"}},
    })
}
