use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bulk_reshuffle_stack::{Client, Lifetime, Process, Tools, wait};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::api_server::ApiServer;
use crate::container::Container;

const LIMIT: Duration = Duration::from_secs(60);

const NAMESPACE: &str = "envoy-gateway-system";

/// Where it serves proxies. It cannot be told another port, nor to listen on loopback only.
const DISCOVERY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 18_000);

/// Where its proxies are administered.
const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 19_000);

/// What proxies call it, with and without the dot of a name that is complete.
const HOST: &str = "envoy-gateway.envoy-gateway-system.svc.cluster.local";

/// Envoy Gateway, which makes what the API server has into a configuration of its proxies. Dropping it kills it.
#[derive(Debug)]
pub struct EnvoyGateway {
    process: Process,
    run_dir: PathBuf,
}

impl EnvoyGateway {
    /// Starts it; returns when it serves proxies. The API server has to know its resources by then. It takes fixed ports
    /// of all addresses, so it needs a network of its own.
    pub async fn start(tools: &Tools, run_dir: &Path, api: &ApiServer) -> Result<Self> {
        let program = tools.folder("envoy-gateway")?.join("envoy-gateway");
        let folder = |name: &str| make_folder(&run_dir.join(name));
        api.add_namespace(NAMESPACE).await?;
        let certificates = tokio::process::Command::new(&program)
            .args(["certgen", "--disable-topology-injector"])
            .env("KUBECONFIG", api.kubeconfig())
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
            // Else at the ports of the proxy, which is in another pod elsewhere.
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
            .env("KUBECONFIG", api.kubeconfig())
            .env("ENVOY_GATEWAY_NAMESPACE", NAMESPACE)
            // It keeps modules there.
            .env("HOME", folder("home")?);
        let log = run_dir.join("envoy-gateway.log");
        let process = Process::start("Envoy Gateway", command, &log, Lifetime::WithParent)?;
        let gateway = Self { process, run_dir: run_dir.to_path_buf() };
        gateway.wait_ready().await?;
        Ok(gateway)
    }

    /// Starts the Envoy that it has planned for a Gateway, as a kubelet would; returns when that listens at `port`.
    /// `hosts` are names that it can look up.
    pub async fn start_proxy(
        &self,
        tools: &Tools,
        api: &ApiServer,
        gateway: &str,
        port: u16,
        hosts: &[(String, Ipv4Addr)],
    ) -> Result<GatewayProxy> {
        let folder = |name: &str| make_folder(&self.run_dir.join(gateway).join(name));
        let (deployment, container) = self.planned(api, gateway).await?;
        write_secret(api, "envoy", &folder("certificates")?).await?;
        write_config_map(api, &deployment, &folder("sds")?).await?;
        let mut table = format!("127.0.0.1 localhost {HOST} {HOST}.\n");
        hosts.iter().for_each(|(name, address)| table.push_str(&format!("{address} {name}\n")));
        let host_file = folder("etc")?.join("hosts");
        fs::write(&host_file, table)?;
        let place = Container::default()
            .with("/certs", &folder("certificates")?)
            .with("/sds", &folder("sds")?)
            .with("/etc/hosts", &host_file);
        let mut command = place.command(&folder("root")?, &tools.envoy);
        let arguments = container.get("args").and_then(Value::as_array).context("a container without arguments")?;
        for argument in arguments.iter().filter_map(Value::as_str) {
            let argument = argument.replace("$(ENVOY_POD_NAME)", gateway).replace("$(ENVOY_SERVICE_ZONE)", "");
            // A file of hosts has no names that end with a dot.
            command.arg(argument.replace(&format!("{HOST}."), HOST));
        }
        command.args(["--disable-hot-restart", "--concurrency", "2"]);
        let log = self.run_dir.join(gateway).join("envoy.log");
        let process = Process::start("the gateway's Envoy", command, &log, Lifetime::WithParent)?;
        let listener = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let proxy = GatewayProxy { process, listener, client: Client::new() };
        proxy.wait_listening().await.with_context(|| self.process.log_extract())?;
        Ok(proxy)
    }

    /// The name of the Deployment that it has made for a Gateway, and the container in it that is Envoy.
    async fn planned(&self, api: &ApiServer, gateway: &str) -> Result<(String, Value)> {
        let label = format!("gateway.envoyproxy.io/owning-gateway-name={gateway}");
        let get = ["get", "deployments", "--namespace", NAMESPACE, "--selector", &label, "--output=json"];
        let deployment = wait::until(LIMIT, "Envoy Gateway has made no Deployment", async || {
            self.process.ensure_running()?;
            let list: Value = serde_json::from_str(&api.kubectl(&get).await?)?;
            Ok(list.pointer("/items/0").cloned())
        })
        .await
        .with_context(|| self.process.log_extract())?;
        let name = deployment.pointer("/metadata/name").and_then(Value::as_str).context("no name")?.to_owned();
        let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        let containers = containers.context("no containers")?;
        let envoy = containers
            .iter()
            .find(|container| container.get("name").is_some_and(|name| name == "envoy"))
            .context("no Envoy")?;
        Ok((name, envoy.clone()))
    }

    /// Ends it.
    pub async fn stop(self) -> Result<()> {
        self.process.stop().await
    }

    async fn wait_ready(&self) -> Result<()> {
        wait::until(LIMIT, "Envoy Gateway does not serve proxies", async || {
            self.process.ensure_running()?;
            Ok(TcpStream::connect(DISCOVERY).await.ok())
        })
        .await
        .map(|_| ())
        .with_context(|| self.process.log_extract())
    }
}

/// The Envoy of a Gateway. Dropping it kills it.
#[derive(Debug)]
pub struct GatewayProxy {
    process: Process,
    listener: SocketAddr,
    client: Client,
}

impl GatewayProxy {
    /// Where it takes connections from clients.
    pub fn listener(&self) -> SocketAddr {
        self.listener
    }

    /// Where it is administered.
    pub fn admin(&self) -> SocketAddr {
        ADMIN
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// All that it was given.
    pub async fn configuration(&self) -> Result<String> {
        Ok(self.client.get(&format!("http://{ADMIN}/config_dump")).await?.ok()?.text())
    }

    /// Ends it.
    pub async fn stop(self) -> Result<()> {
        self.process.stop().await
    }

    async fn wait_listening(&self) -> Result<()> {
        wait::until(LIMIT, "the gateway does not listen", async || {
            self.process.ensure_running()?;
            Ok(TcpStream::connect(self.listener).await.ok())
        })
        .await
        .map(|_| ())
        .with_context(|| self.process.log_extract())
    }
}

fn make_folder(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder.to_path_buf())
}

/// A file for each entry of a Secret.
async fn write_secret(api: &ApiServer, name: &str, folder: &Path) -> Result<()> {
    for (entry, value) in data(api, "secret", name).await? {
        fs::write(folder.join(entry), STANDARD.decode(value)?)?;
    }
    Ok(())
}

/// A file for each entry of a ConfigMap.
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
