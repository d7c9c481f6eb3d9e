use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use crate::folder::Folder;
use crate::manifests::{Manifests, list_mut};
use crate::pod::Pod;
use crate::proxy::Kind;
use crate::stateful_set::StatefulSet;

/// An overlay's manifests, and the kind of proxy that they configure.
#[derive(Debug, Clone)]
pub struct Overlay {
    /// The overlay's folder.
    pub name: &'static str,
    /// The role of the proxy.
    pub kind: Kind,
    set: StatefulSet,
    manifests: Manifests,
}

impl Overlay {
    /// Builds an overlay of a folder, for the nodes of a StatefulSet.
    pub(crate) fn build(set: &StatefulSet, name: &'static str, folder: &Folder) -> Result<Self> {
        let kind = if name.starts_with("gateway-") { Kind::Gateway } else { Kind::Sidecar };
        Ok(Self { name, kind, set: set.clone(), manifests: folder.manifests(name)? })
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
            for patch in list_mut(filter, "/spec/configPatches")? {
                let route = patch.pointer("/match/routeConfiguration/vhost/route/name");
                if route.is_some_and(|name| name == "bulk") {
                    let place = patch.pointer_mut("/patch/value/route/idle_timeout");
                    *place.context("a bulk route has no idle timeout")? = json!(format!("{}s", limit.as_secs()));
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

    /// Returns the overlay with additional Kubernetes objects.
    #[must_use]
    pub fn with_objects(mut self, objects: impl IntoIterator<Item = Value>) -> Self {
        self.manifests = self.manifests.with(objects);
        self
    }

    /// Returns the overlay with changed pods of the nodes.
    #[must_use]
    pub fn with_pods(mut self, change: impl FnOnce(&mut [Pod])) -> Self {
        change(&mut self.set.pods);
        self
    }

    /// Returns the labels of the proxies that the overlay selects.
    pub fn labels(&self) -> Map<String, Value> {
        let label = match self.kind {
            Kind::Gateway => ("istio", "ingressgateway"),
            Kind::Sidecar => ("app", "client"),
        };
        [(label.0.to_owned(), json!(label.1))].into_iter().collect()
    }

    /// Returns the manifests with all listeners bound to the proxy's pod.
    pub(crate) fn bound(&self, pod: &Pod) -> Result<Manifests> {
        let mut bound = self.manifests.clone();
        bound.listen_at(pod.address)?;
        Ok(bound)
    }

    /// Returns the bound manifests and the other objects of a cluster.
    pub(crate) fn complete(&self, pod: &Pod) -> Result<Manifests> {
        Ok(self.bound(pod)?.with(self.set.objects()).with([pod.object(), plain_text()]))
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
