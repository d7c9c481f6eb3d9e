use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bulk_reshuffle_stack::{Process, Tools};
use serde_json::{Value, json};

use crate::api_server::ApiServer;
use crate::container::Container;
use crate::process::{make_folder, start, wait_connection, wait_for};
use crate::proxy::Proxy;

const NAMESPACE: &str = "envoy-gateway-system";

/// The xDS address of Envoy Gateway. Neither the port nor the interfaces can be configured.
const DISCOVERY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 18_000);

/// Texts in the log when a proxy fails.
const FAULTS: &[&str] = &["][critical]", "panicked"];

/// The administration interface of its proxies.
const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 19_000);

/// The name by which proxies reach Envoy Gateway; they also use it with a trailing dot.
const HOST: &str = "envoy-gateway.envoy-gateway-system.svc.cluster.local";

/// Envoy Gateway, which translates the API server's resources into the configuration of its proxies. Dropping it kills
/// the process.
#[derive(Debug)]
pub struct EnvoyGateway {
    process: Process,
    run_dir: PathBuf,
}

impl EnvoyGateway {
    /// Starts Envoy Gateway and returns when it serves proxies. Its resources must be defined in the API server before.
    /// It binds fixed ports on all addresses, so it needs a private network namespace.
    pub async fn start(tools: &Tools, run_dir: &Path, api: &ApiServer) -> Result<Self> {
        let program = tools.folder("envoy-gateway")?.join("envoy-gateway");
        let folder = |name: &str| make_folder(&run_dir.join(name));
        api.add_namespace(NAMESPACE).await?;
        let certificates = tokio::process::Command::new(&program)
            .args(["certgen", "--disable-topology-injector"])
            .env("KUBECONFIG", &api.kubeconfig)
            .env("ENVOY_GATEWAY_NAMESPACE", NAMESPACE)
            .output()
            .await?;
        ensure!(certificates.status.success(), "{}", String::from_utf8_lossy(&certificates.stderr));
        write_secret(api, "envoy-gateway", &folder("certificates")?).await?;
        let configuration = json!({
            "apiVersion": "gateway.envoyproxy.io/v1alpha1",
            "kind": "EnvoyGateway",
            "gateway": {"controllerName": "gateway.envoyproxy.io/gatewayclass-controller"},
            "provider": {"type": "Kubernetes", "kubernetes": {
                "leaderElection": {"disable": true}, "proxyTopologyInjector": {"disabled": true},
            }},
            "extensionApis": {"enableEnvoyPatchPolicy": true},
            // The default ports are those of the proxy, which runs in another pod in a cluster.
            "admin": {"address": {"host": "127.0.0.1", "port": 19_100}},
            "telemetry": {"metrics": {"prometheus": {"disable": true}}},
        });
        let file = run_dir.join("envoy-gateway.json");
        fs::write(&file, configuration.to_string())?;
        let container = Container::default().with("/certs", &folder("certificates")?);
        let mut command = container.command(&folder("root")?, &program);
        command
            .args(["server", "--config-path"])
            .arg(file)
            .env("KUBECONFIG", &api.kubeconfig)
            .env("ENVOY_GATEWAY_NAMESPACE", NAMESPACE)
            // Envoy Gateway keeps modules there.
            .env("HOME", folder("home")?);
        let process = start("envoy-gateway", command, run_dir)?;
        wait_connection(&process, "Envoy Gateway serves proxies", DISCOVERY).await?;
        Ok(Self { process, run_dir: run_dir.to_path_buf() })
    }

    /// Starts the Envoy of a Gateway's Deployment, as a kubelet does, and returns when Envoy listens at `port`. Of the
    /// names in the cluster, it can resolve only that of Envoy Gateway.
    pub async fn start_proxy(&self, tools: &Tools, api: &ApiServer, gateway: &str, port: u16) -> Result<Proxy> {
        let folder = |name: &str| make_folder(&self.run_dir.join(gateway).join(name));
        let (deployment, container) = self.planned(api, gateway).await?;
        write_secret(api, "envoy", &folder("certificates")?).await?;
        write_config_map(api, &deployment, &folder("sds")?).await?;
        let host_file = folder("etc")?.join("hosts");
        fs::write(&host_file, format!("127.0.0.1 localhost {HOST} {HOST}.\n"))?;
        let place = Container::default()
            .with("/certs", &folder("certificates")?)
            .with("/sds", &folder("sds")?)
            .with("/etc/hosts", &host_file);
        let mut command = place.command(&folder("root")?, &tools.envoy);
        let arguments = container["args"].as_array().context("the Envoy container has no arguments")?;
        for argument in arguments.iter().filter_map(Value::as_str) {
            let argument = argument.replace("$(ENVOY_POD_NAME)", gateway).replace("$(ENVOY_SERVICE_ZONE)", "");
            // A hosts file cannot have names with a trailing dot.
            command.arg(argument.replace(&format!("{HOST}."), HOST));
        }
        command.arg("--disable-hot-restart");
        let process = start("envoy", command, &self.run_dir.join(gateway))?;
        let addresses = [(Ipv4Addr::LOCALHOST, port).into(), ADMIN, ADMIN];
        Proxy::listening(process, addresses, FAULTS).await.with_context(|| self.process.log_extract())
    }

    /// Returns the name of the Deployment of a Gateway, and its container that runs Envoy.
    async fn planned(&self, api: &ApiServer, gateway: &str) -> Result<(String, Value)> {
        let label = format!("gateway.envoyproxy.io/owning-gateway-name={gateway}");
        let get = ["get", "deployments", "--namespace", NAMESPACE, "--selector", &label, "--output=json"];
        let deployment = wait_for(&self.process, "Envoy Gateway creates a Deployment", async || {
            let list: Value = serde_json::from_str(&api.kubectl(&get).await?)?;
            list.pointer("/items/0").cloned().context("there is no Deployment")
        })
        .await?;
        let name = deployment["metadata"]["name"].as_str().context("the Deployment has no name")?;
        let containers = deployment["spec"]["template"]["spec"]["containers"].as_array();
        let containers = containers.context("the Deployment has no containers")?;
        let envoy = containers.iter().find(|container| container["name"] == "envoy");
        Ok((name.to_owned(), envoy.context("the Deployment has no Envoy container")?.clone()))
    }
}

/// Writes a file for each entry of a Secret.
async fn write_secret(api: &ApiServer, name: &str, folder: &Path) -> Result<()> {
    for (entry, value) in data(api, "secret", name).await? {
        fs::write(folder.join(entry), STANDARD.decode(value)?)?;
    }
    Ok(())
}

/// Writes a file for each entry of a ConfigMap.
async fn write_config_map(api: &ApiServer, name: &str, folder: &Path) -> Result<()> {
    for (entry, value) in data(api, "configmap", name).await? {
        fs::write(folder.join(entry), value)?;
    }
    Ok(())
}

async fn data(api: &ApiServer, kind: &str, name: &str) -> Result<BTreeMap<String, String>> {
    let text = api.kubectl(&["get", kind, name, "--namespace", NAMESPACE, "--output=jsonpath={.data}"]).await?;
    if text.is_empty() {
        bail!("the {kind} {name} is empty");
    }
    Ok(serde_json::from_str(&text)?)
}
