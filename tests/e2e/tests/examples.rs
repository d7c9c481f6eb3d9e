//! The examples for Kubernetes, Envoy Gateway and Docker Compose, as far as they can be checked without these systems:
//! the manifests against the projects' own schemas, and Envoy's configuration in front of a real cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use bulk_reshuffle_e2e::KubernetesPod;
use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, Tools, port, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(30);

const KUBERNETES: [&str; 4] = ["namespace.yaml", "opensearch.yaml", "bulk-reshuffle.yaml", "network-policy.yaml"];

const ENVOY_GATEWAY: [&str; 2] = ["gateway.yaml", "bulk-reshuffle.yaml"];

fn example(name: &str) -> PathBuf {
    Tools::find().unwrap().root.join("examples").join(name)
}

fn yaml(path: &Path) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Schemas for `tests/istio/go/validate`: those of Kubernetes in one folder, CRDs in another.
struct Schemas {
    tools: Tools,
    folder: TempDir,
}

impl Schemas {
    fn gather() -> Self {
        let (tools, folder) = (Tools::find().unwrap(), TempDir::new().unwrap());
        let kubernetes = tools.folder("kubernetes-schemas").unwrap();
        let own = folder.path().join("kubernetes");
        fs::create_dir_all(&own).unwrap();
        for group in ["api", "apis__apps", "apis__autoscaling", "apis__networking.k8s.io", "apis__policy"] {
            let version = if group == "apis__autoscaling" { "v2" } else { "v1" };
            let name = format!("{group}__{version}_openapi.json");
            fs::copy(kubernetes.join(&name), own.join(name)).unwrap();
        }
        let others = folder.path().join("others");
        fs::create_dir_all(&others).unwrap();
        for (source, tool) in ["gateway-schemas", "envoy-gateway-schemas"].into_iter().enumerate() {
            for file in fs::read_dir(tools.folder(tool).unwrap()).unwrap() {
                let file = file.unwrap();
                if file.path().extension().is_some_and(|extension| extension == "yaml") {
                    // Those of Envoy Gateway are from a Helm chart, whose first and last lines are Helm's.
                    let text = fs::read_to_string(file.path()).unwrap();
                    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("{{")).collect();
                    let name = format!("{source}-{}", file.file_name().display());
                    fs::write(others.join(name), lines.join("\n")).unwrap();
                }
            }
        }
        Self { tools, folder }
    }

    /// Returns the errors with which an API server would refuse objects of a manifest.
    fn refusals(&self, manifest: &str) -> Vec<String> {
        let file = self.folder.path().join("manifest.yaml");
        fs::write(&file, manifest).unwrap();
        let mut command = Command::new(self.tools.folder("validate").unwrap().join("validate"));
        command.arg(self.folder.path().join("kubernetes")).arg(self.folder.path().join("others")).arg(&file);
        let Output { status, stdout, stderr } = command.output().unwrap();
        assert!(status.success(), "{}", text(&stderr));
        let objects: Vec<_> = text(&stdout).lines().map(str::to_owned).collect();
        assert_eq!(objects.len(), manifest.split("\n---\n").count(), "{objects:?}");
        objects.into_iter().filter(|object| !object.ends_with(": []")).collect()
    }

    /// Checks that the manifest is accepted as it is, and refused for this reason with this change.
    fn check(&self, path: &Path, (right, wrong): (&str, &str), reason: &str) {
        let manifest = fs::read_to_string(path).unwrap();
        assert_eq!(self.refusals(&manifest), [""; 0], "{}", path.display());
        let broken = manifest.replacen(right, wrong, 1);
        assert_ne!(broken, manifest, "{right} is not in {}", path.display());
        let refusals = self.refusals(&broken);
        assert!(refusals.iter().any(|refusal| refusal.contains(reason)), "{wrong}: {refusals:?}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_manifests_match_the_schemas_of_kubernetes() {
    let schemas = Schemas::gather();
    let file = |name: &str| example("kubernetes").join(name);
    schemas.check(&file("namespace.yaml"), ("name: search", "nam: search"), "nam");
    schemas.check(&file("opensearch.yaml"), ("replicas: 3", "replicas: three"), "spec.replicas");
    schemas.check(&file("opensearch.yaml"), ("serviceName: es", "servicename: es"), "spec.servicename");
    schemas.check(&file("bulk-reshuffle.yaml"), ("image: {reference:", "image: {refrence:"), "refrence");
    schemas.check(&file("bulk-reshuffle.yaml"), ("minReplicas: 2", "minReplcas: 2"), "spec.minReplcas");
    schemas.check(&file("bulk-reshuffle.yaml"), ("maxUnavailable: 1", "maxUnavailble: 1"), "spec.maxUnavailble");
    schemas.check(&file("network-policy.yaml"), ("ingress:", "ingres:"), "spec.ingres");
    schemas.check(&file("network-policy.yaml"), ("port: 53", "prot: 53"), "prot");
}

fn objects(path: &Path) -> Vec<Value> {
    serde_saphyr::from_multiple(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the pods of the Kubernetes examples with their files.
fn pods() -> Vec<(&'static str, Value)> {
    let files = ["bulk-reshuffle.yaml", "opensearch.yaml"];
    let all = files.into_iter().flat_map(|name| {
        objects(&example("kubernetes").join(name))
            .into_iter()
            .map(move |object| (name, object["spec"]["template"].clone()))
    });
    all.filter(|(_, template)| !template.is_null()).collect()
}

#[test]
fn pods_have_no_rights_that_they_do_not_need() {
    let pods = pods();
    assert_eq!(pods.len(), 2);
    for (file, pod) in pods {
        let spec = &pod["spec"];
        assert_eq!(spec["automountServiceAccountToken"], false, "{file}");
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true, "{file}");
        assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", "{file}");
        for container in spec["containers"].as_array().unwrap() {
            let rights = &container["securityContext"];
            assert_eq!(rights["allowPrivilegeEscalation"], false, "{file}");
            assert_eq!(rights["capabilities"], json!({"drop": ["ALL"]}), "{file}");
            assert!(rights["readOnlyRootFilesystem"] == true || container["name"] == "opensearch", "{file}");
        }
    }
    let project = compose(&example("docker-compose/compose.yaml")).unwrap();
    for (name, service) in project["services"].as_object().unwrap() {
        assert_eq!(service["cap_drop"], json!(["ALL"]), "{name}");
        assert_eq!(service["security_opt"], json!(["no-new-privileges:true"]), "{name}");
    }
    assert_eq!(project["services"]["envoy"]["read_only"], true);
}

/// Returns a size in MiB. It is written as `1152Mi` by Kubernetes, as `1152m` by Compose, or in bytes.
fn mebibytes(size: &Value) -> u64 {
    let number = |text: &str| text.trim_end_matches("Mi").trim_end_matches('m').parse().unwrap();
    size.as_str().map_or_else(|| size.as_u64().unwrap() >> 20, number)
}

#[test]
fn memory_limits_cover_the_workers_and_the_heap() {
    /// The memory of the routing table, the program and V8, and the growth of the heap while new requests are refused.
    const REST: u64 = 252;
    let envoy = yaml(&example("kubernetes/envoy.yaml"));
    let heap = &envoy["overload_manager"]["resource_monitors"][0]["typed_config"]["max_heap_size_bytes"];
    // The documented bound for the default of `limits.memory`, which the examples use.
    let text = envoy["static_resources"]["listeners"][0].to_string();
    assert!(text.contains("coordinator") && !text.contains("limits"), "{text}");
    let of_worker = 256 * 3 / 2 + 4;
    let needed = |workers: u64| of_worker * workers + mebibytes(heap) + REST;

    let (_, pod) = pods().swap_remove(0);
    let container = &pod["spec"]["containers"][0];
    let arguments = container["args"].as_array().unwrap().iter().filter_map(Value::as_str);
    let workers = arguments.filter_map(|argument| argument.strip_prefix("--concurrency=")).next().unwrap();
    assert_eq!(mebibytes(&container["resources"]["limits"]["memory"]), needed(workers.parse().unwrap()));

    let project = compose(&example("docker-compose/compose.yaml")).unwrap();
    let service = &project["services"]["envoy"];
    let command: Vec<_> = service["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let at = command.iter().position(|word| *word == "--concurrency").unwrap();
    assert_eq!(mebibytes(&service["mem_limit"]), needed(command[at + 1].parse().unwrap()));
}

/// Returns the longest time that follows a text in a file, in seconds.
fn seconds(file: &str, before: &str) -> u64 {
    let text = fs::read_to_string(Tools::find().unwrap().root.join(file)).unwrap();
    let digits = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>();
    let found = text.split(before).skip(1).filter_map(|rest| digits(rest).parse().ok());
    found.max().unwrap_or_else(|| panic!("{file} has no time after {before:?}"))
}

/// The time after which an idle bulk request fails is the longest that the filter may hold it.
#[test]
fn a_pod_that_ends_has_time_for_all_requests_that_it_holds() {
    let pod = "examples/kubernetes/bulk-reshuffle.yaml";
    let idle = seconds("examples/kubernetes/envoy.yaml", "timeout: 0s, idle_timeout: ");
    assert!(seconds(pod, "--drain-time-s=") >= idle && seconds(pod, "sleep ") >= idle);
    assert!(seconds(pod, "terminationGracePeriodSeconds: ") > seconds(pod, "sleep "));

    let pod = "istio/examples/gateway/gateway.yaml";
    let idle = seconds("istio/components/gateway/bulk.yaml", "idle_timeout: ");
    let drain = seconds(pod, "terminationDrainDuration: ");
    assert!(drain >= idle && seconds(pod, " drainDuration: ") >= idle);
    assert!(seconds(pod, "terminationGracePeriodSeconds: ") > drain);

    // Envoy Gateway adds five minutes for the pod's grace period.
    let gateway = "examples/envoy-gateway/gateway.yaml";
    assert!(seconds(gateway, "drainTimeout: ") >= seconds(gateway, "streamIdleTimeout: "));
}

#[test]
fn every_pod_has_a_policy_that_admits_only_named_peers() {
    let policies = objects(&example("kubernetes/network-policy.yaml"));
    for (file, pod) in pods() {
        let labels = &pod["metadata"]["labels"];
        let mut of_pod = policies.iter().filter(|policy| policy["spec"]["podSelector"]["matchLabels"] == *labels);
        let policy = of_pod.next().unwrap_or_else(|| panic!("no policy for {file}"));
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]), "{file}");
        for rule in policy["spec"]["ingress"].as_array().unwrap() {
            let named = |peer: &Value| !peer["podSelector"]["matchLabels"].is_null();
            assert!(rule["from"].as_array().unwrap().iter().all(named), "{rule}");
            // Ports are referenced by their names in the pod.
            for port in rule["ports"].as_array().unwrap() {
                let mut ports = pod["spec"]["containers"][0]["ports"].as_array().unwrap().iter();
                assert!(ports.any(|known| known["name"] == port["port"]), "{port}");
            }
        }
    }
}

#[test]
fn the_kustomization_names_every_file() {
    let folder = example("kubernetes");
    let kustomization = yaml(&folder.join("kustomization.yaml"));
    assert_eq!(kustomization["resources"], json!(KUBERNETES));
    assert_eq!(kustomization["configMapGenerator"], json!([{"name": "bulk-reshuffle", "files": ["envoy.yaml"]}]));
    let chart = ["Chart.yaml", "templates", "values.schema.json", "values.yaml"];
    let others = ["README.md", "envoy.yaml", "kustomization.yaml"].into_iter().chain(chart);
    let expected: BTreeSet<_> = KUBERNETES.into_iter().chain(others).map(str::to_owned).collect();
    let found = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(found.collect::<BTreeSet<_>>(), expected);
}

/// Returns what `helm install RELEASE examples/kubernetes --values FILE` applies, or Helm's error.
fn chart(release: &str, values: &str) -> Result<String, String> {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("own.yaml");
    fs::write(&file, values).unwrap();
    let mut command = Command::new(Tools::find().unwrap().folder("helm").unwrap().join("helm"));
    command.args(["template", release]).arg(example("kubernetes")).arg("--values").arg(file);
    let output = command.output().unwrap();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// Returns objects by their kinds and names.
fn by_name(objects: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    objects.into_iter().map(|object| (format!("{} {}", object["kind"], object["metadata"]["name"]), object)).collect()
}

/// Returns the object with this kind and name, in the form of [`by_name`].
fn object(manifests: &str, name: &str) -> Value {
    let all = serde_saphyr::from_multiple::<Value>(manifests).unwrap();
    by_name(all).remove(name).unwrap_or_else(|| panic!("no {name}"))
}

/// Reads Envoy's configuration in a ConfigMap, with that of the filter as an object.
fn envoy_of(config_map: &Value) -> Value {
    let mut envoy: Value = serde_saphyr::from_str(config_map["data"]["envoy.yaml"].as_str().unwrap()).unwrap();
    let manager = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters";
    let filters = envoy.pointer_mut(manager).unwrap().as_array_mut().unwrap();
    let filter = filters.iter_mut().find(|filter| filter["name"] == "bulk_reshuffle").unwrap();
    let configuration = filter.pointer_mut("/typed_config/config/configuration/value").unwrap();
    *configuration = serde_json::from_str(configuration.as_str().unwrap()).unwrap();
    envoy
}

#[test]
fn the_chart_installs_the_same_manifests() {
    let rendered = chart("bulk-reshuffle", "").unwrap();
    assert_eq!(Schemas::gather().refusals(&rendered), [""; 0]);
    let own = ", app.kubernetes.io/instance: bulk-reshuffle";
    let mut found = by_name(serde_saphyr::from_multiple::<Value>(&rendered.replace(own, "")).unwrap());

    let config_map = found.remove("\"ConfigMap\" \"bulk-reshuffle\"").unwrap();
    let envoy = fs::read_to_string(example("kubernetes/envoy.yaml")).unwrap();
    assert_eq!(envoy_of(&config_map), envoy_of(&json!({"data": {"envoy.yaml": envoy}})));

    let pod = &mut found.get_mut("\"Deployment\" \"bulk-reshuffle\"").unwrap()["spec"]["template"]["metadata"];
    let annotations = pod.as_object_mut().unwrap().remove("annotations").unwrap();
    assert_eq!(annotations["checksum/configuration"].as_str().unwrap().len(), 64);
    // The namespace is the release's.
    let files = KUBERNETES.into_iter().filter(|name| *name != "namespace.yaml");
    assert_eq!(found, by_name(files.flat_map(|name| objects(&example("kubernetes").join(name)))));
}

#[test]
fn the_charts_values_reach_the_manifests() {
    let readme = fs::read_to_string(example("kubernetes/README.md")).unwrap();
    let block = readme.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(chart("logs", block).unwrap().contains("address: YOUR-HEADLESS-SERVICE, port_value: 9200"));

    let digest = format!("registry.example/filter@sha256:{}", "0".repeat(64));
    let peer = json!({"namespaceSelector": {"matchLabels": {"team": "search"}}});
    let configuration = json!({"nodes": {"header": "x-bulk-reshuffle-node"}, "coordinator": "it's"});
    let values = json!({
        "image": digest,
        "imagePullSecrets": ["pull"],
        "envoyImage": "mirror/envoy:v1.40.0",
        "replicas": {"minimum": 3, "maximum": 9},
        "nodes": {"host": "nodes.search.svc", "port": 9201, "peers": [peer]},
        "trialNodes": false,
        "configuration": configuration,
    });
    let rendered = chart("logs", &values.to_string()).unwrap();
    assert_eq!(Schemas::gather().refusals(&rendered), [""; 0]);
    let names = by_name(serde_saphyr::from_multiple::<Value>(&rendered).unwrap()).into_keys().collect::<Vec<_>>();
    let kinds =
        ["ConfigMap", "Deployment", "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget", "Service"];
    assert_eq!(names, kinds.map(|kind| format!("\"{kind}\" \"logs\"")));

    let deployment = object(&rendered, "\"Deployment\" \"logs\"");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][0]["configMap"]["name"], "logs");
    assert_eq!(pod["volumes"][1]["image"]["reference"], *digest);
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "pull"}]));
    assert_eq!(pod["containers"][0]["image"], "mirror/envoy:v1.40.0");
    let autoscaler = object(&rendered, "\"HorizontalPodAutoscaler\" \"logs\"");
    assert_eq!(autoscaler["spec"]["scaleTargetRef"]["name"], "logs");
    assert_eq!([&autoscaler["spec"]["minReplicas"], &autoscaler["spec"]["maxReplicas"]], [3, 9]);
    let policy = object(&rendered, "\"NetworkPolicy\" \"logs\"");
    let nodes = json!({"to": [peer], "ports": [{"protocol": "TCP", "port": 9201}]});
    assert_eq!(policy["spec"]["egress"][0], nodes);
    // Each release finds its own pods only.
    let labels = json!({"app.kubernetes.io/name": "bulk-reshuffle", "app.kubernetes.io/instance": "logs"});
    let service = object(&rendered, "\"Service\" \"logs\"");
    let template = &deployment["spec"]["template"]["metadata"]["labels"];
    for found in [&service["spec"]["selector"], &policy["spec"]["podSelector"]["matchLabels"], template] {
        assert_eq!(*found, labels);
    }

    let envoy = envoy_of(&object(&rendered, "\"ConfigMap\" \"logs\""));
    let cluster =
        "/static_resources/clusters/0/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address";
    assert_eq!(envoy.pointer(cluster).unwrap(), &json!({"address": "nodes.search.svc", "port_value": 9201}));
    assert!(envoy.to_string().contains(&configuration.to_string()), "{envoy}");
}

#[test]
fn the_chart_refuses_values_that_it_does_not_know() {
    for (value, reason) in [
        ("trialNode: false", "trialNode"),
        ("image: registry.example/filter:0.2.0", "image"),
        ("nodes: {port: http}", "port"),
        ("replicas: {minimum: 0}", "minimum"),
    ] {
        let error = chart("bulk-reshuffle", value).unwrap_err();
        assert!(error.contains(reason) && error.contains("schema"), "{error}");
    }
}

#[test]
fn the_policies_match_the_schemas_of_envoy_gateway() {
    let schemas = Schemas::gather();
    let [gateway, filter] = ENVOY_GATEWAY.map(|name| example("envoy-gateway").join(name));
    schemas.check(&gateway, ("bufferLimit: 32Mi", "bufferLimits: 32Mi"), "bufferLimits");
    schemas.check(&gateway, ("request: 0s", "request: never"), "timeouts.request");
    schemas.check(&gateway, ("endpointOverride:", "endpointsOverride:"), "endpointsOverride");
    schemas.check(&gateway, ("protocol: TCP, port: http", "protocol: TCP, prot: http"), "prot");
    schemas.check(&filter, ("failOpen: true", "failOpen: maybe"), "failOpen");
    // This violates a validation rule of the definition, not a type.
    schemas.check(&filter, ("type: Image", "type: HTTP"), "http");
    schemas.check(&filter, ("op: add", "op: put"), "operation.op");
}

/// Returns the parsed compose file, or the errors in it.
fn compose(file: &Path) -> Result<Value, String> {
    let program = Tools::find().unwrap().folder("compose-spec").unwrap().join("compose-spec");
    let mut command = Command::new(program);
    command.args(["--format", "json"]).arg(file).current_dir(file.parent().unwrap());
    let output = command.output().unwrap();
    if !output.status.success() {
        return Err(text(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn the_compose_file_is_valid_and_its_mounts_exist() {
    let file = example("docker-compose/compose.yaml");
    let project = compose(&file).unwrap();
    let services = project["services"].as_object().unwrap();
    let names: Vec<_> = services.keys().map(String::as_str).collect();
    assert_eq!(names, ["envoy", "es-0", "es-1", "es-2"]);
    for (name, service) in services.iter().filter(|(name, _)| name.starts_with("es-")) {
        assert_eq!(service["environment"]["node.name"], **name);
        assert_eq!(service["environment"]["cluster.name"], "bulk-reshuffle");
        assert_eq!(service["networks"]["default"]["aliases"], json!(["es"]));
    }
    // The library does not check these references.
    let nodes = json!(names[1..]);
    assert_eq!(json!(services["envoy"]["depends_on"].as_object().unwrap().keys().collect::<Vec<_>>()), nodes);
    assert_eq!(json!(project["volumes"].as_object().unwrap().keys().collect::<Vec<_>>()), nodes);
    for mount in services["envoy"]["volumes"].as_array().unwrap() {
        assert!(Path::new(mount["source"].as_str().unwrap()).is_file(), "{mount}");
    }

    let folder = TempDir::new().unwrap();
    let broken = folder.path().join("compose.yaml");
    let right = fs::read_to_string(&file).unwrap();
    for (from, to, reason) in [
        ("healthcheck:", "healthchek:", "healthchek"),
        ("condition: service_healthy", "condition: healthy", "condition"),
    ] {
        assert!(right.contains(from), "{from}");
        fs::write(&broken, right.replacen(from, to, 1)).unwrap();
        let refusal = compose(&broken).unwrap_err();
        assert!(refusal.contains(reason), "{to}: {refusal}");
    }
}

/// Reads a configuration without the fields that the examples change: addresses and paths, and Envoy's settings at the
/// edge, which `scripted::edge` tests.
fn without_places(path: &Path) -> (Value, Vec<Value>) {
    let remove = |object: &mut Value, field: &str| drop(object.as_object_mut().unwrap().remove(field));
    let mut config = yaml(path);
    remove(&mut config["admin"], "ignore_global_conn_limit");
    let listener = &mut config["static_resources"]["listeners"][0];
    listener["address"].take();
    remove(listener, "per_connection_buffer_limit_bytes");
    let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
    let kept = ["@type", "stat_prefix", "http_filters", "route_config"];
    manager.as_object_mut().unwrap().retain(|field, _| kept.contains(&field.as_str()));
    let filters = manager["http_filters"].as_array_mut().unwrap();
    filters.retain(|filter| filter["name"] != "address");
    for filter in filters {
        if let Some(file) = filter.pointer_mut("/typed_config/config/vm_config/code/local/filename") {
            file.take();
        }
    }
    let listener = listener.take();
    let clusters = config["static_resources"]["clusters"].as_array_mut().unwrap();
    clusters.retain(|cluster| cluster["name"] != "admin");
    for cluster in &mut *clusters {
        cluster["type"].take();
        cluster.as_object_mut().unwrap().remove("dns_lookup_family");
        remove(cluster, "per_connection_buffer_limit_bytes");
        cluster["load_assignment"]["endpoints"].take();
    }
    let clusters = clusters.clone();
    (json!([listener, config["stats_config"], config["admin"]]), clusters)
}

/// Moves the header that names a batch's node from one configuration to another: the filter's field, and the routes'
/// removal of it.
fn name_nodes(from: &Value, to: &mut Value) {
    let manager = "/0/filter_chains/0/filters/0/typed_config";
    let (from, to) = (from.pointer(manager).unwrap(), to.pointer_mut(manager).unwrap());
    for field in ["request_headers_to_remove", "response_headers_to_remove"] {
        to["route_config"][field] = from["route_config"][field].clone();
    }
    let filter = |filter: &&Value| filter["name"] == "bulk_reshuffle";
    let named = from["http_filters"].as_array().unwrap().iter().find(filter).unwrap();
    let filters = to["http_filters"].as_array_mut().unwrap();
    *filters.iter_mut().find(|found| filter(&&**found)).unwrap() = named.clone();
}

#[test]
fn the_configuration_differs_from_the_shipped_ones_only_in_addresses_and_paths() {
    let shipped = |name: &str| without_places(&Tools::find().unwrap().root.join("envoy").join(name));
    let ((one, clusters), (mut expected, _)) = (shipped("one-cluster.yaml"), shipped("envoy.yaml"));
    name_nodes(&one, &mut expected);
    assert_eq!(without_places(&example("kubernetes/envoy.yaml")), (expected, clusters));
}

fn request() -> String {
    let line = |id| format!("{{\"index\":{{\"_index\":\"examples\",\"_id\":\"{id}\"}}}}\n{{\"n\":{id}}}\n");
    (0..100).map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_splits_serves_probes_and_drains() {
    let (tools, folder) = (Tools::find().unwrap(), TempDir::new().unwrap());
    let nodes = Cluster::start(&tools, ClusterOptions::new(folder.path())).await.unwrap();
    let addresses: Vec<_> = nodes.addresses().map(|(_, address)| address).collect();
    let pod = KubernetesPod::start(folder.path(), "envoy", &addresses).await.unwrap();
    let (envoy, client) = (&pod.envoy, Client::new());
    let settings = json!({"settings": {"number_of_shards": 6, "number_of_replicas": 0}});
    client.put_json(&envoy.url("/examples"), &settings).await.unwrap();

    // The filter does not know the index at the first requests.
    let url = format!("http://{}", port::loopback(pod.probes));
    wait::until(LIMIT, "every node gets a batch", async || {
        let answer = client.post_ndjson(&envoy.url("/_bulk"), request()).await?.ok()?.json()?;
        assert_eq!(answer["errors"], json!(false));
        let metrics = client.get(&format!("{url}/stats/prometheus")).await?.ok()?.text();
        let batches: BTreeSet<_> =
            metrics.lines().filter(|line| line.starts_with("bulk_reshuffle_batches_total{")).collect();
        let has = |node: &str| batches.iter().any(|line| line.contains(&format!("upstream=\"{node}\"")));
        Ok(["es-0", "es-1", "es-2"].into_iter().all(has).then_some(()))
    })
    .await
    .unwrap();
    // Each batch went to the node that it named.
    let metrics = client.get(&format!("{url}/stats/prometheus")).await.unwrap().text();
    let redirected = metrics.lines().filter(|line| line.starts_with("bulk_reshuffle_batches_redirected_total{"));
    assert_eq!(redirected.filter(|line| !line.ends_with(" 0")).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(client.get(&format!("{url}/ready")).await.unwrap().status, 200);
    // A client of these paths could end Envoy or read its configuration.
    for path in ["/", "/config_dump", "/quitquitquit"] {
        assert_eq!(client.get(&format!("{url}{path}")).await.unwrap().status, 404, "{path}");
    }

    let answer = client.get(&envoy.url("/")).await.unwrap();
    assert_eq!(answer.headers.get("connection"), None);
    let output = pod.pre_stop().unwrap().output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer = client.post_ndjson(&envoy.url("/_bulk"), request()).await.unwrap();
    assert_eq!(answer.json().unwrap()["items"].as_array().unwrap().len(), 100);
    assert_eq!(answer.headers["connection"], "close", "Envoy does not close connections while it drains");
    pod.envoy.stop().await.unwrap();
    nodes.stop().await.unwrap();
}
