//! Checks that the manifests have the settings of envoy.yaml and one-cluster.yaml that the filter needs.

use std::fs;

use anyhow::{Context, Result};
use bulk_reshuffle_istio::{Folder, Manifests, OVERLAYS};
use serde_json::Value;

/// A shipped configuration of a standalone Envoy.
struct Standalone(Value);

impl Standalone {
    fn read(folder: &Folder) -> Result<Self> {
        Self::named(folder, "envoy.yaml")
    }

    fn named(folder: &Folder, file: &str) -> Result<Self> {
        Ok(Self(serde_saphyr::from_str(&fs::read_to_string(folder.root().join("envoy").join(file))?)?))
    }

    fn manager(&self) -> &Value {
        &self.0["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    }

    fn filter(&self, name: &str) -> Result<&Value> {
        let filters = self.manager()["http_filters"].as_array().context("envoy.yaml has no filters")?;
        filters.iter().find(|filter| filter["name"] == name).with_context(|| format!("envoy.yaml has no filter {name}"))
    }

    fn virtual_host(&self) -> &Value {
        &self.manager()["route_config"]["virtual_hosts"][0]
    }

    fn cluster(&self) -> &Value {
        &self.0["static_resources"]["clusters"][0]
    }
}

/// Returns the values of an overlay's EnvoyFilter patches of one kind.
fn patches<'a>(manifests: &'a Manifests, apply_to: &str) -> Vec<&'a Value> {
    let filters = manifests.all("EnvoyFilter").flat_map(|filter| filter["spec"]["configPatches"].as_array().unwrap());
    filters.filter(|patch| patch["applyTo"] == apply_to).map(|patch| &patch["patch"]["value"]).collect()
}

#[test]
fn routes() -> Result<()> {
    let folder = Folder::shipped()?;
    let standalone = Standalone::read(&folder)?;
    let host = standalone.virtual_host();
    // The first route is the switch in Envoy's runtime, which Istio's proxies do not have.
    let [switch, bulk, any_bulk, others] = [0, 1, 2, 3].map(|place| &host["routes"][place]);
    assert_eq!(switch["match"]["runtime_fraction"]["runtime_key"], "bulk_reshuffle.off");
    assert_eq!(bulk["match"]["path"], "/_bulk");
    for overlay in OVERLAYS {
        let manifests = folder.manifests(overlay)?;
        let limits = patches(&manifests, "VIRTUAL_HOST");
        assert_eq!(limits[0]["request_body_buffer_limit"], host["request_body_buffer_limit"], "{overlay}");
        let routes = patches(&manifests, "HTTP_ROUTE");
        for (route, expected) in [(routes[0], bulk), (routes[1], others)] {
            assert_eq!(route["route"]["idle_timeout"], expected["route"]["idle_timeout"], "{overlay}");
            assert_eq!(route["route"]["timeout"], expected["route"]["timeout"], "{overlay}");
        }
        let routes =
            &manifests.all("VirtualService").next().context("the overlay has no VirtualService")?["spec"]["http"];
        assert_eq!(routes[0]["match"][0]["uri"]["exact"], bulk["match"]["path"], "{overlay}");
        assert_eq!(routes[0]["match"][1]["uri"]["regex"], any_bulk["match"]["safe_regex"]["regex"], "{overlay}");
        for route in routes.as_array().unwrap() {
            assert_eq!(route["retries"]["retryOn"], host["retry_policy"]["retry_on"], "{overlay}");
            assert_eq!(route["retries"]["attempts"], host["retry_policy"]["num_retries"], "{overlay}");
        }
    }
    Ok(())
}

#[test]
fn clusters() -> Result<()> {
    let folder = Folder::shipped()?;
    let standalone = Standalone::read(&folder)?;
    let manifests = folder.manifests("gateway-envoyfilter")?;
    let rule = manifests.all("DestinationRule").next().context("the overlay has no DestinationRule")?;
    let pool = &rule["spec"]["trafficPolicy"]["connectionPool"];
    let thresholds = &standalone.cluster()["circuit_breakers"]["thresholds"][0];
    assert_eq!(pool["tcp"]["connectTimeout"], standalone.cluster()["connect_timeout"]);
    assert_eq!(pool["tcp"]["maxConnections"], thresholds["max_connections"]);
    let probes = &standalone.cluster()["upstream_connection_options"]["tcp_keepalive"];
    for (field, standalone) in [("time", "keepalive_time"), ("interval", "keepalive_interval")] {
        assert_eq!(pool["tcp"]["tcpKeepalive"][field], format!("{}s", probes[standalone]));
    }
    assert_eq!(pool["tcp"]["tcpKeepalive"]["probes"], probes["keepalive_probes"]);
    assert_eq!(pool["http"]["http1MaxPendingRequests"], thresholds["max_pending_requests"]);
    assert_eq!(pool["http"]["http2MaxRequests"], thresholds["max_requests"]);
    Ok(())
}

#[test]
fn one_cluster() -> Result<()> {
    let folder = Folder::shipped()?;
    let standalone = Standalone::named(&folder, "one-cluster.yaml")?;
    let removed = &standalone.manager()["route_config"]["request_headers_to_remove"];
    assert!(removed[0].is_string());
    for overlay in OVERLAYS {
        let manifests = folder.manifests(overlay)?;
        let [cluster] = patches(&manifests, "CLUSTER")[..] else {
            panic!("{overlay} does not have one patch of clusters")
        };
        for field in ["load_balancing_policy", "typed_extension_protocol_options", "upstream_bind_config"] {
            assert_eq!(cluster[field], standalone.cluster()[field], "{overlay}");
        }
        let routes = manifests.all("VirtualService").flat_map(|service| service["spec"]["http"].as_array().unwrap());
        for route in routes {
            for direction in ["request", "response"] {
                assert_eq!(&route["headers"][direction]["remove"], removed, "{overlay}: {route}");
            }
        }
    }
    Ok(())
}

#[test]
fn filters() -> Result<()> {
    let folder = Folder::shipped()?;
    let standalone = Standalone::read(&folder)?;
    for overlay in ["gateway-envoyfilter", "sidecar-envoyfilter"] {
        let manifests = folder.manifests(overlay)?;
        let mut filter = patches(&manifests, "EXTENSION_CONFIG")[0].clone();
        let mut expected = standalone.filter("bulk_reshuffle")?.clone();
        for filter in [&mut filter, &mut expected] {
            // The location of the module, the upstreams, and the cluster's name in two names differ.
            filter["name"].take();
            filter["typed_config"]["config"]["vm_config"]["vm_id"].take();
            filter["typed_config"]["config"]["vm_config"]["code"].take();
            filter["typed_config"]["config"]["configuration"]["value"].take();
        }
        assert_eq!(filter, expected, "{overlay}");
    }
    for overlay in OVERLAYS.iter().filter(|overlay| overlay.starts_with("gateway")) {
        let manifests = folder.manifests(overlay)?;
        let filters = patches(&manifests, "HTTP_FILTER");
        assert!(filters.contains(&standalone.filter("envoy.filters.http.compressor")?), "{overlay}: {filters:?}");
    }
    Ok(())
}

/// Checks that a proxy without a working filter behaves the same with an EnvoyFilter, a WasmPlugin or a
/// TrafficExtension.
#[test]
fn failures() -> Result<()> {
    let folder = Folder::shipped()?;
    let shipped = folder.manifests("gateway-envoyfilter")?;
    let policy = &patches(&shipped, "EXTENSION_CONFIG")[0]["typed_config"]["config"]["failure_policy"];
    let expected = &patches(&shipped, "HTTP_FILTER")[0]["config_discovery"];
    assert!(policy.is_string() && expected.is_object());
    for overlay in OVERLAYS {
        let manifests = folder.manifests(overlay)?;
        let discovered = patches(&manifests, "HTTP_FILTER").into_iter().map(|filter| &filter["config_discovery"]);
        let discovered: Vec<&Value> = discovered.filter(|discovery| !discovery.is_null()).collect();
        assert!(!discovered.is_empty() && discovered.iter().all(|one| *one == expected), "{overlay}: {discovered:?}");
        for (kind, pointer) in [("WasmPlugin", "/spec/failStrategy"), ("TrafficExtension", "/spec/wasm/failStrategy")] {
            assert!(manifests.all(kind).all(|one| one.pointer(pointer) == Some(policy)), "{overlay}");
        }
    }
    Ok(())
}
