use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// Resources in the form that `kubectl apply` takes.
#[derive(Debug, Clone, Default)]
pub struct Manifests(Vec<Value>);

impl Manifests {
    /// Reads a text of YAML documents.
    pub fn read(yaml: &str) -> Result<Self> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)?;
        Ok(Self(documents.into_iter().filter(|document| !document.is_null()).collect()))
    }

    /// Returns all resources of this kind.
    pub fn all(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |one| one["kind"] == kind)
    }

    /// Returns all resources of this kind for changes.
    pub fn all_mut(&mut self, kind: &str) -> impl Iterator<Item = &mut Value> {
        self.0.iter_mut().filter(move |one| one["kind"] == kind)
    }

    /// Returns all resources as YAML.
    pub fn yaml(&self) -> String {
        yaml(&self.0)
    }

    /// Adds resources.
    #[must_use]
    pub fn with(mut self, more: impl IntoIterator<Item = Value>) -> Self {
        self.0.extend(more);
        self
    }

    /// Replaces the filter's location in the manifests with a file.
    pub fn set_module(&mut self, wasm: &Path) -> Result<()> {
        self.set_code(&format!("file://{}", wasm.display()), &json!({"local": {"filename": wasm}}))
    }

    /// Replaces the filter's location in the manifests with a URL.
    pub fn set_module_url(&mut self, url: &str) -> Result<()> {
        let sha256 = "0".repeat(64);
        let uri = json!({"uri": url, "timeout": "1s", "cluster": "unused"});
        self.set_code(url, &json!({"remote": {"http_uri": uri, "sha256": sha256}}))
    }

    fn set_code(&mut self, url: &str, code: &Value) -> Result<()> {
        let mut places = 0;
        for value in &mut self.0 {
            if let Some(place) = url_of_module(value) {
                *place = json!(url);
                places += 1;
            }
            places += replace(value, "code", code);
        }
        ensure!(places > 0, "no manifest has the location of the filter's module");
        Ok(())
    }

    /// Binds the listeners of gateways and sidecars to a pod's address only. Clients connect to that address directly,
    /// because nothing here redirects traffic, and all pods use the same ports.
    pub fn listen_at(&mut self, address: Ipv4Addr) -> Result<()> {
        let address = json!(address.to_string());
        for gateway in self.all_mut("Gateway") {
            for server in list_mut(gateway, "/spec/servers")? {
                set_field(server, "bind", &address);
            }
        }
        for sidecar in self.all_mut("Sidecar") {
            // Egress entries without a port have no listener.
            for listener in list_mut(sidecar, "/spec/egress")?.iter_mut().filter(|one| one.get("port").is_some()) {
                set_field(listener, "captureMode", &json!("NONE"));
                set_field(listener, "bind", &address);
            }
        }
        Ok(())
    }

    /// Sets fields in every configuration of the filter in the manifests.
    pub fn configure(&mut self, fields: &Value) -> Result<()> {
        let mut found = false;
        for value in &mut self.0 {
            for configuration in configurations(value) {
                found = true;
                change(configuration, fields)?;
            }
        }
        ensure!(found, "no manifest configures the filter");
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

/// Reports whether a resource is of a kind that Istio defines.
fn is_istio(resource: &Value) -> bool {
    let group = resource["apiVersion"].as_str().and_then(|version| version.split('/').next());
    group.is_some_and(|group| group.ends_with("istio.io"))
}

/// Returns the field of a WasmPlugin or a TrafficExtension that has the module's URL.
fn url_of_module(resource: &mut Value) -> Option<&mut Value> {
    match resource["kind"].as_str()? {
        "WasmPlugin" => resource.pointer_mut("/spec/url"),
        "TrafficExtension" => resource.pointer_mut("/spec/wasm/url"),
        _ => None,
    }
}

/// Returns the list at a JSON pointer in a resource.
pub(crate) fn list_mut<'a>(resource: &'a mut Value, pointer: &str) -> Result<&'a mut Vec<Value>> {
    let list = resource.pointer_mut(pointer).and_then(Value::as_array_mut);
    list.with_context(|| format!("a resource has no {pointer}"))
}

/// Sets a field of an object.
pub(crate) fn set_field(value: &mut Value, field: &str, to: &Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.insert(field.to_owned(), to.clone());
    }
}

/// Replaces all fields of this name at any depth and returns their number.
fn replace(value: &mut Value, name: &str, by: &Value) -> usize {
    match value {
        Value::Object(fields) => fields
            .iter_mut()
            .map(|(field, value)| match field == name {
                true => {
                    *value = by.clone();
                    1
                }
                false => replace(value, name, by),
            })
            .sum(),
        Value::Array(values) => values.iter_mut().map(|value| replace(value, name, by)).sum(),
        _ => 0,
    }
}

/// Returns the filter's configurations in a resource: an object in a WasmPlugin, JSON text in an EnvoyFilter.
fn configurations(resource: &mut Value) -> Vec<&mut Value> {
    match resource["kind"].as_str() {
        Some("WasmPlugin") => resource.pointer_mut("/spec/pluginConfig").into_iter().collect(),
        Some("TrafficExtension") => resource.pointer_mut("/spec/wasm/pluginConfig").into_iter().collect(),
        Some("EnvoyFilter") => {
            let patches = resource.pointer_mut("/spec/configPatches").and_then(Value::as_array_mut);
            let configurations = patches
                .into_iter()
                .flatten()
                .filter_map(|patch| patch.pointer_mut("/patch/value/typed_config/config/configuration/value"));
            configurations.collect()
        }
        _ => Vec::new(),
    }
}

fn change(configuration: &mut Value, fields: &Value) -> Result<()> {
    let fields = fields.as_object().context("the fields are not an object")?.clone();
    match configuration {
        Value::Object(object) => object.extend(fields),
        Value::String(text) => {
            let mut object: serde_json::Map<_, _> = serde_json::from_str(text)?;
            object.extend(fields);
            *text = Value::Object(object).to_string();
        }
        other => bail!("{other} is not a configuration"),
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PLUGIN: &str = "
kind: WasmPlugin
spec: {url: 'oci://registry.example/image', pluginConfig: {coordinator: es, enabled: true}}
";

    const FILTER: &str = "
kind: EnvoyFilter
spec:
  configPatches:
    - patch: {value: {name: other}}
    - patch:
        value:
          typed_config:
            config:
              vm_config: {code: {remote: {sha256: '0'}}}
              configuration: {value: '{\"coordinator\": \"es\"}'}
";

    #[test]
    fn the_module_location_is_replaced_in_every_kind_of_manifest() {
        let mut manifests = Manifests::read(&format!("{PLUGIN}---{FILTER}")).unwrap();
        manifests.set_module(Path::new("/filter.wasm")).unwrap();
        assert_eq!(manifests.0[0]["spec"]["url"], "file:///filter.wasm");
        let config = &manifests.0[1]["spec"]["configPatches"][1]["patch"]["value"]["typed_config"]["config"];
        assert_eq!(config["vm_config"], json!({"code": {"local": {"filename": "/filter.wasm"}}}));
    }

    #[test]
    fn the_configuration_changes_both_as_an_object_and_as_text() {
        for (manifest, pointer) in [
            (PLUGIN, "/spec/pluginConfig"),
            (FILTER, "/spec/configPatches/1/patch/value/typed_config/config/configuration/value"),
        ] {
            let mut manifests = Manifests::read(manifest).unwrap();
            manifests.configure(&json!({"enabled": false})).unwrap();
            let found = manifests.0[0].pointer(pointer).unwrap();
            let found = found.as_str().map_or_else(|| found.clone(), |text| serde_json::from_str(text).unwrap());
            assert_eq!(found, json!({"coordinator": "es", "enabled": false}));
        }
    }

    #[test]
    fn manifests_without_the_filter_are_an_error() {
        let mut manifests = Manifests::read("kind: Gateway").unwrap();
        assert!(manifests.set_module(Path::new("/filter.wasm")).is_err());
        assert!(manifests.configure(&json!({})).is_err());
    }
}
