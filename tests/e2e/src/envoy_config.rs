//! The parts of Envoy's configuration that tests change.

use std::net::SocketAddr;

use serde_json::{Value, json};

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

/// Returns the HTTP connection manager of the first listener.
pub fn manager(config: &mut Value) -> &mut Value {
    config.pointer_mut(MANAGER).expect("no connection manager")
}

pub fn http_filters(config: &mut Value) -> &mut Vec<Value> {
    list(manager(config), "/http_filters")
}

pub fn routes(config: &mut Value) -> &mut Vec<Value> {
    list(manager(config), "/route_config/virtual_hosts/0/routes")
}

pub fn clusters(config: &mut Value) -> &mut Vec<Value> {
    list(config, "/static_resources/clusters")
}

/// Adds an upstream with these endpoints.
pub fn add_cluster(config: &mut Value, name: &str, endpoints: &[SocketAddr]) {
    clusters(config).push(json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "2s",
        "load_assignment": load_assignment(name, endpoints),
    }));
}

/// Returns an upstream's list of endpoints.
pub(crate) fn load_assignment(upstream: &str, endpoints: &[SocketAddr]) -> Value {
    let endpoint = |address: &SocketAddr| {
        let address = json!({"socket_address": {"address": address.ip(), "port_value": address.port()}});
        json!({"endpoint": {"address": address}})
    };
    let endpoints: Vec<Value> = endpoints.iter().map(endpoint).collect();
    json!({"cluster_name": upstream, "endpoints": [{"lb_endpoints": endpoints}]})
}

/// Makes the first upstream learn its hosts as these fields say, instead of from a list.
pub fn discover_hosts(config: &mut Value, fields: &Value) {
    let cluster = clusters(config).first_mut().and_then(Value::as_object_mut).expect("no upstream");
    cluster.remove("load_assignment");
    cluster.extend(fields.as_object().cloned().unwrap_or_default());
}

/// Moves all listeners to loopback, and that for probes to this port.
pub fn listen_on_loopback(config: &mut Value, probes: u16) {
    for listener in list(config, "/static_resources/listeners") {
        let is_for_probes = listener["name"] == "probes";
        let address = &mut listener["address"]["socket_address"];
        address["address"] = json!("127.0.0.1");
        if is_for_probes {
            address["port_value"] = json!(probes);
        }
    }
}

fn list<'a>(value: &'a mut Value, pointer: &str) -> &'a mut Vec<Value> {
    let list = value.pointer_mut(pointer).and_then(Value::as_array_mut);
    list.unwrap_or_else(|| panic!("{pointer} is missing"))
}
