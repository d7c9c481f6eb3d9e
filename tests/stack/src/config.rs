//! Envoy's configuration: the shipped file with other addresses.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

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

    /// Sets the ports of the first listener and of the administration interface.
    pub(crate) fn set_ports(&mut self, listener: u16, admin: u16) -> Result<()> {
        *self.at("/static_resources/listeners/0/address/socket_address/port_value")? = listener.into();
        *self.at("/admin/address/socket_address/port_value")? = admin.into();
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
        let is_wasm = |filter: &Value| filter.pointer("/typed_config/@type").is_some_and(|found| found == WASM);
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

const HTTP_FILTERS: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters";

const ENDPOINTS: &str = "/load_assignment/endpoints/0/lb_endpoints";

/// Merges fields into an object and its nested objects; replaces all other values.
fn merge(value: &mut Value, fields: &Value) {
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
