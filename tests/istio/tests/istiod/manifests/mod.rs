//! Tests of the shipped manifests: kustomize builds them, Istio's own checks find no mistakes, every value reaches its
//! place, and dependent fields match.

mod layout;
mod standalone;

use anyhow::{Result, ensure};
use bulk_reshuffle::config::{Config, HeaderPause};
use bulk_reshuffle_istio::{Folder, OVERLAYS};
use serde_json::{Value, json};

#[test]
fn istio_finds_no_mistakes_in_the_overlays() -> Result<()> {
    let folder = Folder::shipped()?;
    for overlay in OVERLAYS {
        folder.validate(overlay)?;
        folder.analyze(overlay)?;
    }
    folder.validate_file("examples/gateway/clients.yaml")
}

#[test]
fn istio_finds_no_mistakes_in_the_components() -> Result<()> {
    for (component, mode) in [
        ("mtls", json!("ISTIO_MUTUAL")),
        ("tls", json!("SIMPLE")),
        ("named-upstreams", json!(null)),
        ("state-credentials", json!(null)),
    ] {
        let folder = Folder::shipped()?;
        folder.add_component("gateway-envoyfilter", component)?;
        folder.validate("gateway-envoyfilter")?;
        folder.analyze("gateway-envoyfilter")?;
        let manifests = folder.manifests("gateway-envoyfilter")?;
        let tls = manifests.all("DestinationRule").map(|rule| &rule["spec"]["trafficPolicy"]["tls"]["mode"]);
        assert_eq!(tls.collect::<Vec<_>>(), [&mode]);
    }
    Ok(())
}

/// Checks that mistakes are errors even if Istio only warns of them.
#[test]
fn a_mistake_in_envoys_configuration_is_found() -> Result<()> {
    for (mistake, told) in
        [("failure_polcy: FAIL_RELOAD", "failure_polcy"), ("failure_policy: FAIL_RELAOD", "FAIL_RELAOD")]
    {
        let folder = Folder::shipped()?;
        folder.edit("overlays/gateway-envoyfilter/filter.yaml", "failure_policy: FAIL_RELOAD", mistake)?;
        let error = format!("{:?}", folder.validate("gateway-envoyfilter").unwrap_err());
        assert!(error.contains(told), "{error}");
    }
    Ok(())
}

#[test]
fn every_value_reaches_the_manifests() -> Result<()> {
    let folder = Folder::shipped()?;
    let mut values = folder.values()?;
    values["elasticsearch"] = json!({
        "name": "logs-1",
        "namespace": "elastic",
        "statefulSet": "my-logs-hot",
        "podLabels": {"tier": "hot", "cluster": "logs"},
        "service": "logs.elastic.svc.example.org",
        "exportTo": [".", "writers"],
        "tls": {"mode": "SIMPLE"},
    });
    let server = json!({"port": {"number": 9443, "name": "public", "protocol": "HTTPS"}, "tls": {"mode": "SIMPLE", "credentialName": "public"}, "hosts": ["*"]});
    values["gateway"] = json!({"namespace": "edge", "labels": {"gateway": "logs"}, "server": server});
    values["client"] = json!({"namespace": "writers", "labels": {"writes": "logs"}});
    values["module"]["code"] = json!({"local": {"filename": "/module"}});
    values["module"]["image"] = json!({"url": "oci://images/module:2", "sha256": "1".repeat(64)});
    values["module"]["pullSecret"] = json!("my-registry");
    let filter = json!({"coordinator": "outbound|9200||any.es.internal"});
    values["filter"] = json!({"configuration": filter.to_string(), "pluginConfig": filter});
    folder.set_values(&values)?;
    for overlay in OVERLAYS {
        for component in ["named-upstreams", "pull-secret"] {
            folder.add_component(overlay, component)?;
        }
        if overlay.starts_with("gateway") {
            folder.add_component(overlay, "state-credentials")?;
        }
        folder.validate(overlay)?;
        let text = folder.build(overlay)?;
        // The defaults in values.yaml and the placeholders in other files.
        for default in ["search", "app: es", ".es", " es", "app: client", "example/", "000000", "{name}", "values.yaml"]
        {
            assert!(!text.contains(default), "{overlay} still has `{default}`:\n{text}");
        }
        let (place, delivery) = overlay.split_once('-').unwrap();
        let expected: &[&str] = match place {
            "gateway" => {
                &["namespace: edge", "gateway: logs", "portNumber: 9443", "number: 9443", "mode: SIMPLE", "- logs-1\n"]
            }
            _ => &["namespace: writers", "writes: logs", "elastic/*.logs-1.internal", "*/logs.elastic.svc.example.org"],
        };
        let names: &[&str] = match overlay {
            "gateway-wasmplugin" | "gateway-trafficextension" => {
                &["trafficextension/edge.logs-1-bulk", "translated-wasmplugin", "wasmplugin/edge.logs-1-bulk"]
            }
            "sidecar-wasmplugin" => &["trafficextension/writers.logs-1-bulk", "wasmplugin/writers.logs-1-bulk"],
            _ => &[],
        };
        let module: &[&str] = match delivery {
            "envoyfilter" => &[
                "filename: /module",
                "{\"coordinator\":\"outbound|9200||any.logs-1.internal\"}",
                "vm_id: bulk_reshuffle.logs-1",
            ],
            _ => &[
                "url: oci://images/module:2",
                "1111111",
                "imagePullSecret: my-registry",
                "coordinator: outbound|9200||any.logs-1.internal",
            ],
        };
        let nodes = [
            "namespace: elastic",
            "name: my-logs-hot-2",
            "my-logs-hot-2.logs-1.internal",
            "pod-name: my-logs-hot-2",
            "tier: hot",
            "- writers",
        ];
        for expected in expected.iter().chain(names).chain(module).chain(&nodes) {
            assert!(text.contains(expected), "{overlay} has no `{expected}`:\n{text}");
        }
    }
    Ok(())
}

#[test]
fn the_filter_accepts_its_configuration_and_its_upstreams_exist() -> Result<()> {
    let folder = Folder::shipped()?;
    let values = folder.values()?;
    let text = values["filter"]["configuration"].as_str().unwrap();
    let object = &values["filter"]["pluginConfig"];
    assert_eq!(Config::read(text.as_bytes())?.header_pause, HeaderPause::Auto);
    assert_eq!(Config::read(object.to_string().as_bytes())?.header_pause, HeaderPause::Buffer);
    let mut same = object.clone();
    same.as_object_mut().unwrap().remove("header_pause");
    assert_eq!(serde_json::from_str::<Value>(text)?, same);
    for overlay in OVERLAYS {
        let shipped = clusters(&folder, overlay)?;
        assert_eq!(shipped, [object["coordinator"].as_str().unwrap()]);
        let named = Folder::shipped()?;
        named.name_upstreams(overlay)?;
        let upstream = named.values()?["filter"]["pluginConfig"]["nodes"]["upstream"].take();
        let nodes = (0..3).map(|pod| upstream.as_str().unwrap().replace("{name}", &format!("es-{pod}")));
        assert_eq!(clusters(&named, overlay)?, shipped.into_iter().chain(nodes).collect::<Vec<_>>());
    }
    Ok(())
}

/// Returns the names that Istio gives the hosts of an overlay's nodes, for all of which there must be connection settings.
fn clusters(folder: &Folder, overlay: &str) -> Result<Vec<String>> {
    let manifests = folder.manifests(overlay)?;
    let entries = manifests.all("ServiceEntry").map(|entry| &entry["spec"]);
    let mut clusters: Vec<String> = entries
        .map(|entry| format!("outbound|{}||{}", entry["ports"][0]["number"], entry["hosts"][0].as_str().unwrap()))
        .collect();
    clusters.sort();
    let rules: Vec<&str> =
        manifests.all("DestinationRule").map(|rule| rule["spec"]["host"].as_str().unwrap()).collect();
    let [rule] = rules[..] else { panic!("{rules:?}") };
    ensure!(
        clusters.iter().all(|cluster| cluster.ends_with(rule.trim_start_matches('*'))),
        "{rule} does not match all of {clusters:?}"
    );
    Ok(clusters)
}
