use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_istio::{Kind, Manifests, Pod};
use serde_json::{Value, json};

use crate::folder::Folder;
use crate::site::Site;
use crate::stateful_set::StatefulSet;

/// What is applied, and for which kind of proxy.
#[derive(Clone)]
pub struct Overlay {
    /// Its folder.
    pub name: &'static str,
    pub kind: Kind,
    set: StatefulSet,
    manifests: Manifests,
}

impl Overlay {
    /// As it is shipped, but for the place of the module.
    pub fn shipped(site: &Site, name: &'static str) -> Result<Self> {
        Self::of_folder(site, name, &Folder::shipped()?)
    }

    /// The same with another component.
    pub fn with_component(site: &Site, name: &'static str, component: &str) -> Result<Self> {
        let folder = Folder::shipped()?;
        folder.add_component(name, component)?;
        Self::of_folder(site, name, &folder)
    }

    /// The same with other values.
    pub fn with_values(site: &Site, name: &'static str, change: impl FnOnce(&mut Value)) -> Result<Self> {
        let folder = Folder::shipped()?;
        let mut values = folder.values()?;
        change(&mut values);
        folder.set_values(&values)?;
        Self::of_folder(site, name, &folder)
    }

    fn of_folder(site: &Site, name: &'static str, folder: &Folder) -> Result<Self> {
        let kind = if name.starts_with("gateway-") { Kind::Gateway } else { Kind::Sidecar };
        let manifests = folder.manifests(name)?;
        Self { name, kind, set: site.set.clone(), manifests }.with_module(site.tools.wasm()?)
    }

    /// The same with another module.
    pub fn with_module(mut self, wasm: &Path) -> Result<Self> {
        self.manifests.set_module(&wasm.canonicalize()?)?;
        Ok(self)
    }

    /// The same with a module from this address.
    pub fn with_module_url(mut self, url: &str) -> Result<Self> {
        self.manifests.set_module_url(url)?;
        Ok(self)
    }

    /// The same with another time after which a bulk request fails whose VM is dead.
    pub fn with_last_resort(mut self, limit: Duration) -> Result<Self> {
        let mut places = 0;
        for filter in self.manifests.all_mut("EnvoyFilter") {
            for patch in filter["spec"]["configPatches"].as_array_mut().context("no patches")? {
                if patch["match"]["routeConfiguration"]["vhost"]["route"]["name"] == "bulk" {
                    patch["patch"]["value"]["route"]["idle_timeout"] = json!(format!("{}s", limit.as_secs()));
                    places += 1;
                }
            }
        }
        ensure!(places == 1, "{places} places say when a bulk request fails");
        Ok(self)
    }

    /// The same with these fields in the filter's configuration.
    pub fn with_configuration(mut self, fields: &Value) -> Result<Self> {
        self.manifests.configure(fields)?;
        Ok(self)
    }

    /// The same with something else that Kubernetes knows.
    pub fn with_object(mut self, object: Value) -> Self {
        self.manifests = self.manifests.with([object]);
        self
    }

    /// The same with nodes whose pods are as this makes them.
    pub fn with_pods(mut self, change: impl FnOnce(&mut [Pod])) -> Self {
        change(&mut self.set.pods);
        self
    }

    /// Labels of the proxies that it is for.
    pub fn labels(&self) -> serde_json::Map<String, Value> {
        let label = match self.kind {
            Kind::Gateway => ("istio", "ingressgateway"),
            Kind::Sidecar => ("app", "client"),
        };
        [(label.0.to_owned(), json!(label.1))].into_iter().collect()
    }

    /// The manifests, with all listeners at the address of the proxy's pod, and what surrounds them in a cluster.
    pub fn complete(&self, pod: &Pod) -> Result<Manifests> {
        let mut complete = self.manifests.clone();
        complete.listen_at(pod.address)?;
        Ok(complete.with(self.set.objects()).with([pod.object(), plain_text()]))
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
