use anyhow::Result;
use bulk_reshuffle_istio::{Kind, Manifests, Module, Pod};
use serde_json::{Map, Value, json};

use crate::folder::Folder;
use crate::site::Site;

/// An overlay's manifests, and the kind of proxy that they configure.
#[derive(Clone)]
pub struct Overlay {
    /// The overlay's folder.
    pub name: &'static str,
    pub kind: Kind,
    manifests: Manifests,
}

impl Overlay {
    /// Builds an overlay as shipped, with the module's location in its values, as a user sets it.
    pub fn shipped(site: &Site, name: &'static str) -> Result<Self> {
        Self::with_module(name, &site.module)
    }

    /// Builds an overlay with another location of the module.
    pub fn with_module(name: &'static str, module: &Module) -> Result<Self> {
        Self::of_folder(name, module, &Folder::shipped()?)
    }

    /// Builds an overlay with additional components.
    pub fn with_components(
        site: &Site,
        name: &'static str,
        components: impl IntoIterator<Item = &'static str>,
    ) -> Result<Self> {
        let folder = Folder::shipped()?;
        for component in components {
            folder.add_component(name, component)?;
        }
        Self::of_folder(name, &site.module, &folder)
    }

    fn of_folder(name: &'static str, module: &Module, folder: &Folder) -> Result<Self> {
        let mut values = folder.values()?;
        let places = &mut values["module"];
        places["code"]["remote"]["http_uri"]["uri"] = json!(module.address);
        places["code"]["remote"]["sha256"] = json!(module.sha256);
        places["image"] = json!({"url": module.image, "sha256": module.digest});
        folder.set_values(&values)?;
        let kind = if name.starts_with("gateway-") { Kind::Gateway } else { Kind::Sidecar };
        Ok(Self { name, kind, manifests: folder.manifests(name)? })
    }

    /// Returns the overlay with these fields in the filter's configuration.
    pub fn with_configuration(mut self, fields: &Value) -> Result<Self> {
        self.manifests.configure(fields)?;
        Ok(self)
    }

    /// Returns the overlay with additional resources.
    pub fn with_objects(mut self, objects: impl IntoIterator<Item = Value>) -> Self {
        self.manifests = self.manifests.with(objects);
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
    pub fn bound(&self, pod: &Pod) -> Result<Manifests> {
        let mut bound = self.manifests.clone();
        bound.listen_at(pod.address)?;
        Ok(bound)
    }
}
