use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::{Client, Lifetime, Process, Tools, port, wait};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::api_server::ApiServer;
use crate::istiod::Istiod;
use crate::pod::Pod;
use crate::proxy::Kind;

const LIMIT: Duration = Duration::from_secs(60);

/// Istio's agent in a pod, and the Envoy that it starts. The agent gets certificates from istiod's CA, fetches modules
/// and forwards istiod's configuration to Envoy. Dropping it kills both processes.
#[derive(Debug)]
pub struct Agent {
    process: Process,
    listener: SocketAddr,
    admin: SocketAddr,
    status: SocketAddr,
    client: Client,
}

impl Agent {
    /// Starts the agent in a pod that the API server knows, with two Envoy workers, and returns when Envoy answers.
    /// Envoy may not have its whole configuration or listen yet: see [`Agent::wait_listening`].
    pub async fn start(
        tools: &Tools,
        run_dir: &Path,
        kind: Kind,
        pod: &Pod,
        port: u16,
        api: &ApiServer,
        istiod: &Istiod,
    ) -> Result<Self> {
        let (admin, status) = (port::loopback(port::free()?), port::loopback(port::free()?));
        write_files(tools, run_dir, pod, api).await?;
        let role = match kind {
            Kind::Gateway => "router",
            Kind::Sidecar => "sidecar",
        };
        let discovery = istiod.address();
        let mut command = private_command(tools)?;
        command
            .args(["proxy", role, "--domain", &format!("{}.svc.cluster.local", pod.namespace)])
            .args(["--proxyLogLevel=warning", "--proxyComponentLogLevel=wasm:info,config:info"])
            .arg("--log_output_level=default:info,wasm:debug")
            .env("PROXY_CONFIG", proxy_config(tools, &discovery, admin, status).to_string())
            .envs([("POD_NAME", &pod.name), ("POD_NAMESPACE", &pod.namespace)])
            .envs([("INSTANCE_IP", pod.address.to_string()), ("SERVICE_ACCOUNT", "default".to_owned())])
            .env("ISTIO_METAJSON_LABELS", Value::Object(pod.labels.clone()).to_string())
            .envs([("ISTIO_META_CLUSTER_ID", "Kubernetes"), ("ISTIO_META_INTERCEPTION_MODE", "NONE")])
            .envs([("ISTIO_META_WORKLOAD_NAME", &pod.name), ("CA_ADDR", &discovery)])
            .env("PILOT_CERT_PROVIDER", "istiod")
            // The registry here speaks plain HTTP.
            .env("WASM_INSECURE_REGISTRIES", "*")
            .env("ENVOY_STATUS_PORT", port::free()?.to_string())
            .env("ENVOY_PROMETHEUS_PORT", port::free()?.to_string())
            .current_dir(run_dir);
        let log = run_dir.join("agent.log");
        let process = Process::start(&format!("pilot-agent of {}", pod.name), command, &log, Lifetime::WithParent)?;
        let listener = SocketAddr::from((pod.address, port));
        let agent = Self { process, listener, admin, status, client: Client::new() };
        agent.wait_ready().await?;
        Ok(agent)
    }

    /// Returns the address of the listener for clients.
    pub fn listener(&self) -> SocketAddr {
        self.listener
    }

    /// Returns the address of Envoy's administration interface.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Returns the agent's process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Returns everything that the agent and Envoy have logged so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Returns the counters and gauges whose names contain a match of a regular expression.
    pub async fn stats_with(&self, regex: &str) -> Result<BTreeMap<String, u64>> {
        let url = format!("http://{}/stats?format=json&filter={regex}", self.admin);
        let answer = self.client.get_json(&url).await?;
        let stats = answer.get("stats").and_then(Value::as_array).context("Envoy gave no statistics")?;
        let number = |stat: &Value| Some((stat.get("name")?.as_str()?.to_owned(), stat.get("value")?.as_u64()?));
        Ok(stats.iter().filter_map(number).collect())
    }

    /// Returns the metrics that Prometheus scrapes from this pod.
    pub async fn metrics(&self) -> Result<String> {
        let url = format!("http://{}/stats/prometheus", self.status);
        Ok(self.client.get(&url).await?.ok()?.text())
    }

    /// Waits until Envoy accepts connections from clients.
    pub async fn wait_listening(&self) -> Result<()> {
        wait::until(LIMIT, "the proxy listens", async || {
            self.process.ensure_running()?;
            Ok(TcpStream::connect(self.listener).await.ok())
        })
        .await
        .map(|_| ())
        .with_context(|| self.process.log_extract())
    }

    /// Stops the agent and its Envoy.
    pub async fn stop(self) -> Result<()> {
        self.process.stop().await
    }

    async fn wait_ready(&self) -> Result<()> {
        let url = format!("http://{}/server_info", self.admin);
        wait::until(LIMIT, "the agent's Envoy answers", async || {
            self.process.ensure_running()?;
            Ok(self.client.get(&url).await.and_then(|response| response.ok()).ok())
        })
        .await
        .map(|_| ())
        .with_context(|| self.process.log_extract())
    }
}

/// Returns a command that runs the agent with a private `/var/lib`, because the agent keeps modules in a folder there
/// that cannot be configured. Envoy ends with the agent, however the agent ends.
fn private_command(tools: &Tools) -> Result<Command> {
    const ENTER: &str = "mount -t tmpfs tmpfs /var/lib && mkdir -p /var/lib/istio/data && exec \"$@\"";
    let unshare = || {
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--", "sh", "-c", ENTER, "sh"]);
        command
    };
    let probe = unshare().arg("true").output().context("cannot run unshare (of util-linux)")?;
    ensure!(
        probe.status.success(),
        "Istio's agent needs a private /var/lib, but creating a mount namespace failed: {}Run this as root, or allow \
         user namespaces (on Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0). In a Docker container, \
         start the container with --cap-add SYS_ADMIN --security-opt apparmor=unconfined.",
        String::from_utf8_lossy(&probe.stderr)
    );
    let mut command = unshare();
    command.arg(tools.folder("pilot-agent")?.join("pilot-agent"));
    Ok(command)
}

/// Writes the files that the kubelet and Istio's image put into a pod.
async fn write_files(tools: &Tools, run_dir: &Path, pod: &Pod, api: &ApiServer) -> Result<()> {
    let folder = |path: &str| -> Result<PathBuf> {
        let folder = run_dir.join(path);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    };
    folder("etc/istio/proxy")?;
    let bootstrap = tools.folder("istio-files")?.join("envoy_bootstrap.json");
    fs::copy(bootstrap, folder("var/lib/istio/envoy")?.join("envoy_bootstrap_tmpl.json"))?;
    let namespace = ["--namespace", &pod.namespace];
    let token = ["create", "token", "default", "--audience=istio-ca", "--bound-object-kind=Pod", "--bound-object-name"];
    let token = api.kubectl(&[&token[..], &[&pod.name], &namespace].concat()).await?;
    fs::write(folder("var/run/secrets/tokens")?.join("istio-token"), token.trim())?;
    let root = ["get", "configmap", "istio-ca-root-cert", "--output=jsonpath={.data.root-cert\\.pem}"];
    let root = [&root[..], &namespace].concat();
    let root = wait::until(LIMIT, "istiod writes its CA's certificate into the namespace", async || {
        Ok(api.kubectl(&root).await.ok())
    })
    .await?;
    fs::write(folder("var/run/secrets/istio")?.join("root-cert.pem"), root)?;
    Ok(())
}

fn proxy_config(tools: &Tools, discovery: &str, admin: SocketAddr, status: SocketAddr) -> Value {
    json!({
        "binaryPath": tools.envoy,
        "discoveryAddress": discovery,
        "configPath": "etc/istio/proxy",
        "concurrency": 2,
        "proxyAdminPort": admin.port(),
        "statusPort": status.port(),
        "terminationDrainDuration": "1s",
        // Istio's default statistics include neither the delivered configurations nor the TLS of listeners.
        "proxyStatsMatcher": {"inclusionRegexps": [".*extension_config_discovery.*", r"listener\..*ssl.*"]},
    })
}
