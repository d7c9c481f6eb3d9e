use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::folder::Folder;
use crate::manifests::Manifests;
use crate::pod::{Pod, StatefulSet};
use crate::proxy::Kind;

/// An overlay's manifests, and the kind of proxy that they configure.
#[derive(Debug, Clone)]
pub struct Overlay {
    /// The overlay's folder.
    pub name: &'static str,
    pub kind: Kind,
    /// Whether each node has an upstream of its own, by `components/named-upstreams`.
    pub is_named: bool,
    /// Whether the gateway has the encryption of values.yaml. By default it has none, so that clients need none.
    is_encrypted: bool,
    set: StatefulSet,
    manifests: Manifests,
}

impl Overlay {
    /// Builds an overlay of a folder, for the nodes of a StatefulSet.
    pub(crate) fn build(set: &StatefulSet, name: &'static str, folder: &Folder) -> Result<Self> {
        let kind = if name.starts_with("gateway-") { Kind::Gateway } else { Kind::Sidecar };
        let is_named = folder.values()?.pointer("/filter/pluginConfig/nodes/upstream").is_some();
        Ok(Self { name, kind, is_named, is_encrypted: false, set: set.clone(), manifests: folder.manifests(name)? })
    }

    /// Returns a title for a row of the report.
    pub fn title(&self) -> String {
        format!("{}{}", self.name, if self.is_named { " with components/named-upstreams" } else { "" })
    }

    /// Returns a name that differs from that of the same overlay with other upstreams.
    pub fn unique_name(&self) -> String {
        format!("{}{}", self.name, if self.is_named { "-named" } else { "" })
    }

    #[must_use]
    pub fn with_objects(mut self, objects: impl IntoIterator<Item = Value>) -> Self {
        self.manifests = self.manifests.with(objects);
        self
    }

    /// Adds another overlay, whose gateway is this pod.
    pub fn beside(self, other: &Self, gateway: &Pod) -> Result<Self> {
        let manifests = self.manifests.clone().with(other.bound(gateway)?.into_all()).with([gateway.object()]);
        Ok(Self { manifests, ..self })
    }

    /// Keeps the gateway's encryption.
    #[must_use]
    pub fn encrypted(self) -> Self {
        Self { is_encrypted: true, ..self }
    }

    /// Replaces the StatefulSet.
    #[must_use]
    pub fn of_set(self, set: &StatefulSet) -> Self {
        Self { set: set.clone(), ..self }
    }

    #[must_use]
    pub fn with_pods(mut self, change: impl FnOnce(&mut [Pod])) -> Self {
        change(&mut self.set.pods);
        self
    }

    /// Returns the labels of the proxies that the overlay selects.
    pub fn labels(&self) -> Map<String, Value> {
        let label = match self.kind {
            Kind::Gateway => ("istio", "es-gateway"),
            Kind::Sidecar => ("app", "client"),
        };
        [(label.0.to_owned(), json!(label.1))].into_iter().collect()
    }

    /// Returns the manifests with all listeners bound to the proxy's pod.
    pub(crate) fn bound(&self, pod: &Pod) -> Result<Manifests> {
        let mut bound = self.manifests.clone();
        bound.listen_at(pod.address)?;
        if !self.is_encrypted {
            bound.do_without_encryption()?;
        }
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
