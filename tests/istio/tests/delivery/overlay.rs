use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_istio::{Kind, Manifests, Pod};
use serde_json::{Value, json};

use crate::folder::Folder;
use crate::site::Site;
use crate::stateful_set::StatefulSet;

/// An overlay's manifests, and the kind of proxy that they configure.
#[derive(Clone)]
pub struct Overlay {
    /// The overlay's folder.
    pub name: &'static str,
    pub kind: Kind,
    set: StatefulSet,
    manifests: Manifests,
}

impl Overlay {
    /// Builds an overlay as shipped, except for the location of the module.
    pub fn shipped(site: &Site, name: &'static str) -> Result<Self> {
        Self::of_folder(site, name, &Folder::shipped()?)
    }

    /// Builds an overlay with an additional component.
    pub fn with_component(site: &Site, name: &'static str, component: &str) -> Result<Self> {
        let folder = Folder::shipped()?;
        folder.add_component(name, component)?;
        Self::of_folder(site, name, &folder)
    }

    /// Builds an overlay with other values.
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

    /// Returns the overlay with another module.
    pub fn with_module(mut self, wasm: &Path) -> Result<Self> {
        self.manifests.set_module(&wasm.canonicalize()?)?;
        Ok(self)
    }

    /// Returns the overlay with a module from a URL.
    pub fn with_module_url(mut self, url: &str) -> Result<Self> {
        self.manifests.set_module_url(url)?;
        Ok(self)
    }

    /// Returns the overlay with another idle timeout of the bulk routes, which ends the requests of a dead VM.
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
        ensure!(places == 1, "{places} bulk routes have an idle timeout, not one");
        Ok(self)
    }

    /// Returns the overlay with these fields in the filter's configuration.
    pub fn with_configuration(mut self, fields: &Value) -> Result<Self> {
        self.manifests.configure(fields)?;
        Ok(self)
    }

    /// Returns the overlay with an additional Kubernetes object.
    pub fn with_object(mut self, object: Value) -> Self {
        self.manifests = self.manifests.with([object]);
        self
    }

    /// Returns the overlay with changed pods of the nodes.
    pub fn with_pods(mut self, change: impl FnOnce(&mut [Pod])) -> Self {
        change(&mut self.set.pods);
        self
    }

    /// Returns the labels of the proxies that the overlay selects.
    pub fn labels(&self) -> serde_json::Map<String, Value> {
        let label = match self.kind {
            Kind::Gateway => ("istio", "ingressgateway"),
            Kind::Sidecar => ("app", "client"),
        };
        [(label.0.to_owned(), json!(label.1))].into_iter().collect()
    }

    /// Returns the manifests with all listeners bound to the proxy's pod, and the other objects of a cluster.
    pub fn complete(&self, pod: &Pod) -> Result<Manifests> {
        let mut complete = self.manifests.clone();
        complete.listen_at(pod.address)?;
        Ok(complete.with(self.set.objects()).with([pod.object(), plain_text()]))
    }
}

/// Returns a policy without mutual TLS, because there is no CA here for the pods' certificates.
fn plain_text() -> Value {
    json!({
        "apiVersion": "security.istio.io/v1",
        "kind": "PeerAuthentication",
        "metadata": {"name": "plain-text", "namespace": "istio-system"},
        "spec": {"mtls": {"mode": "DISABLE"}},
    })
}
