//! Envoy's configuration: the shipped file with other addresses.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

/// The bulk-reshuffle filter in the configuration.
#[derive(Debug, Clone, Default)]
pub enum FilterConfig {
    /// As shipped.
    #[default]
    Shipped,
    /// With another filter configuration.
    Value(Value),
    /// As shipped, with these fields added or replaced.
    Merged(Value),
    /// Removed: plain Envoy.
    Removed,
}

/// An Envoy bootstrap configuration.
#[derive(Debug, Clone)]
pub(crate) struct Config(pub(crate) Value);

const WASM: &str = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm";

impl Config {
    /// Reads a YAML file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let value = serde_saphyr::from_str(&text).with_context(|| format!("{} is not YAML", path.display()))?;
        Ok(Self(value))
    }

    /// Sets the port of the first listener.
    pub(crate) fn set_port(&mut self, port: u16) -> Result<()> {
        *self.at("/static_resources/listeners/0/address/socket_address/port_value")? = port.into();
        Ok(())
    }

    /// Sets the port of the administration interface.
    pub(crate) fn set_admin_port(&mut self, port: u16) -> Result<()> {
        *self.at("/admin/address/socket_address/port_value")? = port.into();
        Ok(())
    }

    /// Removes the listeners and clusters. In the listeners, the filter gets a VM of its own.
    pub(crate) fn take_resources(&mut self) -> Result<Resources> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut take = |pointer: &str, kind: &str| -> Result<Vec<Value>> {
            let mut taken = std::mem::take(self.list(pointer)?);
            for resource in &mut taken {
                let fields = resource.as_object_mut().with_context(|| format!("{pointer} has no objects"))?;
                fields.insert("@type".into(), format!("type.googleapis.com/envoy.config.{kind}").into());
            }
            Ok(taken)
        };
        let clusters = take("/static_resources/clusters", "cluster.v3.Cluster")?;
        let mut listeners = take("/static_resources/listeners", "listener.v3.Listener")?;
        for vm_id in listeners.iter_mut().flat_map(filters).filter_map(|filter| filter.pointer_mut(VM_ID)) {
            *vm_id = format!("{}-{number}", vm_id.as_str().unwrap_or_default()).into();
        }
        Ok(Resources { listeners, clusters })
    }

    /// Adds a VM that has the filter's module and no traffic. While it lives, V8 keeps the compiled module.
    pub(crate) fn keep_module(&mut self) -> Result<()> {
        const EXTENSIONS: &str = "bootstrap_extensions";
        let listeners = self.list("/static_resources/listeners")?;
        let Some(filter) = listeners.iter_mut().flat_map(filters).next() else { return Ok(()) };
        let mut plugin =
            Self(filter.pointer("/typed_config/config").context("the filter has no configuration")?.clone());
        *plugin.at("/name")? = "kept".into();
        *plugin.at("/vm_config/vm_id")? = "kept".into();
        *plugin.at("/configuration/value")? =
            json!({"coordinator": "none", "cluster_state": {"refresh": "1h"}}).to_string().into();
        let service = "type.googleapis.com/envoy.extensions.wasm.v3.WasmService";
        let typed_config = json!({"@type": service, "singleton": true, "config": plugin.0});
        let extension = json!({"name": "envoy.bootstrap.wasm", "typed_config": typed_config});
        let fields = self.0.as_object_mut().context("the configuration is not an object")?;
        fields.insert(EXTENSIONS.into(), json!([extension]));
        Ok(())
    }

    /// Makes Envoy load its listeners and clusters from files, and reload them when the files are replaced.
    pub(crate) fn load_resources_from(&mut self, listeners: &Path, clusters: &Path) -> Result<()> {
        let source = |path: &Path| json!({"path_config_source": {"path": path}, "resource_api_version": "V3"});
        let sources = json!({"lds_config": source(listeners), "cds_config": source(clusters)});
        let fields = self.0.as_object_mut().context("the configuration is not an object")?;
        fields.insert("dynamic_resources".into(), sources);
        Ok(())
    }

    /// Replaces the clusters and their endpoints. A cluster that is not in the file is a copy of the file's first
    /// cluster; a cluster that is not in the list is removed. An endpoint whose address in the file is a DNS name keeps
    /// that name, for TLS, at its new address.
    pub(crate) fn set_clusters(&mut self, wanted: &[(String, Vec<SocketAddr>)]) -> Result<()> {
        let clusters = self.list("/static_resources/clusters")?;
        let model = clusters.first().cloned().context("the configuration has no cluster")?;
        let shipped = std::mem::take(clusters);
        for (name, endpoints) in wanted {
            let found = shipped.iter().find(|cluster| cluster.get("name").is_some_and(|found| found == name));
            let mut cluster = Self(found.unwrap_or(&model).clone());
            *cluster.at("/name")? = json!(name);
            let known = cluster.list(ENDPOINTS).cloned().unwrap_or_default();
            let known = known.iter().map(Some).chain(std::iter::repeat(None));
            let endpoints: Vec<Value> =
                endpoints.iter().zip(known).map(|(address, known)| endpoint(address, known)).collect();
            *cluster.at("/load_assignment")? =
                json!({"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]});
            clusters.push(cluster.0);
        }
        Ok(())
    }

    /// Sets the filter's module to the compiled file and applies the requested change.
    pub(crate) fn set_filter(&mut self, filter: &FilterConfig, wasm: impl FnOnce() -> Result<String>) -> Result<()> {
        let filters = self.list(HTTP_FILTERS)?;
        if matches!(filter, FilterConfig::Removed) {
            filters.retain(|filter| !is_wasm(filter));
            return Ok(());
        }
        let shipped = filters.iter_mut().find(|filter| is_wasm(filter)).context("the configuration has no filter")?;
        let mut shipped_config = Self(shipped.take());
        *shipped_config.at("/typed_config/config/vm_config/code/local/filename")? = wasm()?.into();
        let configuration = shipped_config.at("/typed_config/config/configuration/value")?;
        match filter {
            FilterConfig::Value(value) => *configuration = value.to_string().into(),
            FilterConfig::Merged(fields) => {
                let text = configuration.as_str().context("the filter's configuration is not a string")?;
                let mut value: Value = serde_json::from_str(text)?;
                merge(&mut value, fields);
                *configuration = value.to_string().into();
            }
            FilterConfig::Shipped | FilterConfig::Removed => {}
        }
        *shipped = shipped_config.0;
        Ok(())
    }

    fn at(&mut self, pointer: &str) -> Result<&mut Value> {
        self.0.pointer_mut(pointer).with_context(|| format!("the configuration has no {pointer}"))
    }

    fn list(&mut self, pointer: &str) -> Result<&mut Vec<Value>> {
        match self.at(pointer)? {
            Value::Array(list) => Ok(list),
            _ => bail!("{pointer} in the configuration is not a list"),
        }
    }
}

/// Listeners and clusters, as Envoy loads them from files.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    pub(crate) listeners: Vec<Value>,
    pub(crate) clusters: Vec<Value>,
}

const VM_ID: &str = "/typed_config/config/vm_config/vm_id";

/// Returns the wasm filters of a listener.
fn filters(listener: &mut Value) -> impl Iterator<Item = &mut Value> {
    let chains = list_in(listener, "/filter_chains");
    let managers = chains.flat_map(|chain| list_in(chain, "/filters"));
    managers.flat_map(|manager| list_in(manager, "/typed_config/http_filters")).filter(|filter| is_wasm(filter))
}

/// Returns the elements of a list; none if there is no such list.
fn list_in<'a>(value: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    value.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}

fn is_wasm(filter: &Value) -> bool {
    filter.pointer("/typed_config/@type").is_some_and(|found| found == WASM)
}

const HTTP_FILTERS: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters";

const ENDPOINTS: &str = "/load_assignment/endpoints/0/lb_endpoints";

/// Merges fields into an object and its nested objects; replaces all other values.
pub fn merge(value: &mut Value, fields: &Value) {
    match (value, fields) {
        (Value::Object(object), Value::Object(fields)) => {
            for (name, field) in fields {
                merge(object.entry(name).or_insert(Value::Null), field);
            }
        }
        (value, fields) => *value = fields.clone(),
    }
}

fn endpoint(address: &SocketAddr, known: Option<&Value>) -> Value {
    let address = json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}});
    let name = known.and_then(|known| known.pointer("/endpoint/address/socket_address/address")?.as_str());
    let name = name.filter(|name| name.parse::<IpAddr>().is_err());
    let name = name.map(|name| ("hostname".to_owned(), name.into()));
    json!({"endpoint": std::iter::once(("address".to_owned(), address)).chain(name).collect::<Map<_, _>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_replaces_the_given_fields_and_keeps_the_rest() {
        let mut value = json!({"coordinator": "es", "nodes": {"upstream": "{name}"}});
        merge(
            &mut value,
            &json!({"nodes": {"upstreams": {"a": "b"}}, "hold": {"interval": "5ms"}, "coordinator": "x"}),
        );
        let expected = json!({
            "coordinator": "x",
            "nodes": {"upstream": "{name}", "upstreams": {"a": "b"}},
            "hold": {"interval": "5ms"},
        });
        assert_eq!(value, expected);
    }
}
