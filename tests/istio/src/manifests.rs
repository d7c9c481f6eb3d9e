use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::nodes::Nodes;
use crate::site::NAMESPACE;

/// Resources in the form that `kubectl apply` takes.
#[derive(Debug, Clone, Default)]
pub struct Manifests(Vec<Value>);

impl Manifests {
    /// Reads a text of YAML documents.
    pub fn read(yaml: &str) -> Result<Self> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)?;
        Ok(Self(documents.into_iter().filter(|document| !document.is_null()).collect()))
    }

    pub fn all(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |one| one["kind"] == kind)
    }

    pub fn all_mut(&mut self, kind: &str) -> impl Iterator<Item = &mut Value> {
        self.0.iter_mut().filter(move |one| one["kind"] == kind)
    }

    pub fn yaml(&self) -> String {
        yaml(&self.0)
    }

    pub fn into_all(self) -> Vec<Value> {
        self.0
    }

    #[must_use]
    pub fn with(mut self, more: impl IntoIterator<Item = Value>) -> Self {
        self.0.extend(more);
        self
    }

    /// Binds the listeners of gateways and sidecars to a pod's address only, unless they have another. Clients connect to
    /// that address directly, because nothing here redirects traffic, and all pods use the same ports.
    pub fn listen_at(&mut self, address: Ipv4Addr) -> Result<()> {
        let address = json!(address.to_string());
        for gateway in self.all_mut("Gateway").filter(|gateway| is_istio(gateway)) {
            for server in list_mut(gateway, "/spec/servers")?.iter_mut().filter(|one| one.get("bind").is_none()) {
                set_field(server, "bind", &address);
            }
        }
        if self.all("Gateway").any(|gateway| !is_istio(gateway)) {
            self.0.push(listener_at(&address));
        }
        for sidecar in self.all_mut("Sidecar") {
            // Egress entries without a port have no listener.
            let is_open = |one: &&mut Value| one.get("port").is_some() && one.get("bind").is_none();
            for listener in list_mut(sidecar, "/spec/egress")?.iter_mut().filter(is_open) {
                set_field(listener, "captureMode", &json!("NONE"));
                set_field(listener, "bind", &address);
            }
        }
        Ok(())
    }

    /// Lets gateways listen for plain HTTP.
    pub fn do_without_encryption(&mut self) -> Result<()> {
        for gateway in self.all_mut("Gateway") {
            let is_istio = is_istio(gateway);
            for server in list_mut(gateway, if is_istio { "/spec/servers" } else { "/spec/listeners" })? {
                server.as_object_mut().and_then(|server| server.remove("tls"));
                let port = if is_istio { server.get_mut("port").context("a server has no port")? } else { server };
                set_field(port, "protocol", &json!("HTTP"));
            }
        }
        Ok(())
    }

    /// Splits the resources into Istio's and all others.
    pub(crate) fn parts(&self) -> (Vec<&Value>, Vec<&Value>) {
        self.0.iter().partition(|one| is_istio(one))
    }
}

/// Returns all YAML files of a folder as one text.
pub fn yaml_in(folder: &Path) -> Result<String> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "yaml") {
            let text = std::fs::read_to_string(&file)?;
            // Some files are templates, whose conditions are on separate lines.
            texts.push(text.lines().filter(|line| !line.starts_with("{{")).collect::<Vec<_>>().join("\n"));
        }
    }
    Ok(texts.join("\n---\n"))
}

/// Returns the resources as YAML, each as a JSON document, which is valid YAML.
pub(crate) fn yaml<'a>(resources: impl IntoIterator<Item = &'a Value>) -> String {
    // Without the comments, Kubernetes' reader treats the whole text as JSON.
    let document = |one: &Value| format!("# {}\n{one}", one["kind"]);
    resources.into_iter().map(document).collect::<Vec<_>>().join("\n---\n")
}

/// Returns a patch that binds a gateway's listener to an address, for which the Gateway API has no field.
fn listener_at(address: &Value) -> Value {
    json!({
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "EnvoyFilter",
        "metadata": {"name": "listener", "namespace": NAMESPACE},
        "spec": {"configPatches": [{
            "applyTo": "LISTENER",
            "match": {"context": "GATEWAY", "listener": {"portNumber": Nodes::PORT}},
            "patch": {"operation": "MERGE", "value": {"address": {"socket_address": {"address": address}}}},
        }]},
    })
}

/// Reports whether a resource is of a kind that Istio defines.
fn is_istio(resource: &Value) -> bool {
    let group = resource["apiVersion"].as_str().and_then(|version| version.split('/').next());
    group.is_some_and(|group| group.ends_with("istio.io"))
}

/// Returns the list at a JSON pointer in a resource.
fn list_mut<'a>(resource: &'a mut Value, pointer: &str) -> Result<&'a mut Vec<Value>> {
    let list = resource.pointer_mut(pointer).and_then(Value::as_array_mut);
    list.with_context(|| format!("a resource has no {pointer}"))
}

pub(crate) fn set_field(value: &mut Value, field: &str, to: &Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.insert(field.to_owned(), to.clone());
    }
}
