use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::{Tools, port, wait};
use serde_json::{Value, json};

use crate::LIMIT;
use crate::api_server::ApiServer;
use crate::container::private_shell;
use crate::istiod::Istiod;
use crate::nodes::Nodes;
use crate::pod::Pod;
use crate::process::{make_folder, start, wait_answer};
use crate::proxy::{Kind, Proxy};

/// Texts in the log when the filter's VM fails.
const FAULTS: &[&str] = &["\tcritical\t", "panicked", "Function: proxy_", "Uncaught"];

/// Starts Istio's agent in a pod that the API server knows, and the Envoy that it starts, with two workers. The agent
/// gets certificates from istiod's CA, fetches modules and forwards istiod's configuration to Envoy. Returns when Envoy
/// listens.
pub(crate) async fn start_agent(
    tools: &Tools,
    run_dir: &Path,
    kind: Kind,
    pod: &Pod,
    api: &ApiServer,
    istiod: &Istiod,
) -> Result<Proxy> {
    let (admin, status) = (port::loopback(port::free()?), port::loopback(port::free()?));
    write_files(tools, run_dir, pod, api).await?;
    let discovery = istiod.address();
    let mut command = private_command(tools)?;
    command
        .args(["proxy", kind.role(), "--domain", &format!("{}.svc.cluster.local", pod.namespace)])
        .args(["--proxyLogLevel=warning", "--proxyComponentLogLevel=wasm:info,config:info"])
        .arg("--log_output_level=default:info,wasm:debug")
        .env("PROXY_CONFIG", proxy_config(tools, &discovery, admin, status).to_string())
        .envs([("POD_NAME", &pod.name), ("POD_NAMESPACE", &pod.namespace)])
        .envs([("INSTANCE_IP", pod.address.to_string()), ("SERVICE_ACCOUNT", pod.account.clone())])
        .env("ISTIO_METAJSON_LABELS", Value::Object(pod.labels.clone()).to_string())
        .envs([("ISTIO_META_CLUSTER_ID", "Kubernetes"), ("ISTIO_META_INTERCEPTION_MODE", "NONE")])
        .envs([("ISTIO_META_WORKLOAD_NAME", &pod.name), ("CA_ADDR", &discovery)])
        .env("PILOT_CERT_PROVIDER", "istiod")
        // The registry here speaks plain HTTP.
        .env("WASM_INSECURE_REGISTRIES", "*")
        .env("ENVOY_STATUS_PORT", port::free()?.to_string())
        .env("ENVOY_PROMETHEUS_PORT", port::free()?.to_string())
        .current_dir(run_dir);
    let process = start(&format!("pilot-agent of {}", pod.name), command, run_dir)?;
    wait_answer(&process, "the agent's Envoy answers", &format!("http://{admin}/server_info")).await?;
    Proxy::listening(process, [(pod.address, Nodes::PORT).into(), admin, status], FAULTS).await
}

/// Returns a command that runs the agent with a private `/var/lib`, because the agent keeps modules in a folder there
/// that cannot be configured. Envoy ends with the agent, however the agent ends.
fn private_command(tools: &Tools) -> Result<Command> {
    const ENTER: &str = "mount -t tmpfs tmpfs /var/lib && mkdir -p /var/lib/istio/data && exec \"$@\"";
    let probe = private_shell(ENTER).arg("true").output().context("cannot run unshare (of util-linux)")?;
    ensure!(
        probe.status.success(),
        "Istio's agent needs a private /var/lib, but creating a mount namespace failed: {}Run this as root, or allow \
         user namespaces (on Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0). In a Docker container, \
         start the container with --cap-add SYS_ADMIN --security-opt apparmor=unconfined.",
        String::from_utf8_lossy(&probe.stderr)
    );
    let mut command = private_shell(ENTER);
    command.arg(tools.folder("pilot-agent")?.join("pilot-agent"));
    Ok(command)
}

/// Writes the files that the kubelet and Istio's image put into a pod.
async fn write_files(tools: &Tools, run_dir: &Path, pod: &Pod, api: &ApiServer) -> Result<()> {
    let folder = |path: &str| make_folder(&run_dir.join(path));
    folder("etc/istio/proxy")?;
    let bootstrap = tools.folder("istio-files")?.join("envoy_bootstrap.json");
    fs::copy(bootstrap, folder("var/lib/istio/envoy")?.join("envoy_bootstrap_tmpl.json"))?;
    let namespace = ["--namespace", &pod.namespace];
    let token = ["create", "token", &pod.account, "--audience=istio-ca", "--bound-object-kind=Pod"];
    let token = api.kubectl(&[&token[..], &["--bound-object-name", &pod.name], &namespace].concat()).await?;
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
