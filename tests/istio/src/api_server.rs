use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bulk_reshuffle_stack::{Process, Tools, port, wait};
use rcgen::KeyPair;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::LIMIT;
use crate::manifests::Manifests;
use crate::pod::Pod;
use crate::process::{make_folder, program, start};

const START_LIMIT: Duration = Duration::from_secs(120);

/// Kubernetes' API server with etcd as its store, but without controllers and kubelets. Dropping it kills both
/// processes.
#[derive(Debug)]
pub struct ApiServer {
    server: Process,
    etcd: Process,
    kubectl: PathBuf,
    /// The file by which clients reach the server.
    pub(crate) kubeconfig: PathBuf,
}

impl ApiServer {
    /// Starts both processes and returns when they answer.
    pub async fn start(tools: &Tools, run_dir: &Path) -> Result<Self> {
        make_folder(run_dir)?;
        let (store, address) = (format!("http://{}", port::loopback(port::free()?)), port::loopback(port::free()?));
        let etcd = start_etcd(tools, run_dir, &store)?;
        let token = format!("{:032x}", fastrand::u128(..));
        let kubeconfig = run_dir.join("kubeconfig");
        fs::write(&kubeconfig, kubeconfig_for(&format!("https://{address}"), &token).to_string())?;
        fs::write(run_dir.join("tokens.csv"), format!("{token},admin,admin,system:masters\n"))?;
        let accounts = KeyPair::generate()?;
        fs::write(run_dir.join("accounts.key"), accounts.serialize_pem())?;
        fs::write(run_dir.join("accounts.pub"), accounts.public_key_pem())?;
        let mut command = program(tools, "kube-apiserver")?;
        command
            .arg(format!("--etcd-servers={store}"))
            .arg(format!("--secure-port={}", address.port()))
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"])
            .args(["--cert-dir=certificates", "--token-auth-file=tokens.csv", "--authorization-mode=AlwaysAllow"])
            .args(["--service-account-key-file=accounts.pub", "--service-account-signing-key-file=accounts.key"])
            .args(["--service-account-issuer=https://kubernetes.default.svc"])
            .args(["--api-audiences=kubernetes.default.svc,istio-ca", "--service-cluster-ip-range=10.96.0.0/16"])
            // This plugin requires service accounts that a controller has created.
            .args(["--disable-admission-plugins=ServiceAccount", "--allow-privileged=true"])
            .current_dir(run_dir);
        let server = start("kube-apiserver", command, run_dir)?;
        let kubectl = tools.folder("kubectl")?.join("kubectl");
        let started = Self { server, etcd, kubectl, kubeconfig };
        started.wait_ready().await?;
        Ok(started)
    }

    /// Runs kubectl and returns its output. If kubectl fails, the error has its whole error output.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_with(arguments, "").await
    }

    /// Runs kubectl with an input (`--filename=-`).
    pub async fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = tokio::process::Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments).kill_on_drop(true);
        // kubectl caches what it discovers about the server there.
        command.env("HOME", self.kubeconfig.with_file_name("home"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().context("no input")?;
        let exchange = async {
            stdin.write_all(input.as_bytes()).await?;
            drop(stdin);
            child.wait_with_output().await
        };
        let what = || format!("kubectl {}", arguments.join(" "));
        let output = tokio::time::timeout(LIMIT, exchange).await.with_context(what)?.with_context(what)?;
        if !output.status.success() {
            bail!("{}: {}", what(), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    pub async fn apply(&self, manifests: &Manifests) -> Result<()> {
        self.kubectl_with(&["apply", "--filename=-"], &manifests.yaml()).await.map(|_| ())
    }

    /// Validates resources by a dry run on the server: schemas, rules in CRDs, webhooks. An unknown field is an error.
    /// Returns the number of resources.
    pub async fn check(&self, yaml: &str) -> Result<usize> {
        let arguments = ["apply", "--dry-run=server", "--validate=strict", "--output=name", "--filename=-"];
        Ok(self.kubectl_with(&arguments, yaml).await?.lines().count())
    }

    /// Defines kinds of resources and returns when the server serves them.
    pub async fn define(&self, kinds: &str) -> Result<()> {
        // Some are too large for the annotation in which a client-side `apply` stores them.
        self.kubectl_with(&["apply", "--server-side", "--filename=-"], kinds).await?;
        let limit = format!("--timeout={}s", LIMIT.as_secs());
        self.kubectl(&["wait", "crd", "--all", "--for=condition=Established", &limit]).await.map(|_| ())
    }

    /// Creates a namespace and the service account of its pods.
    pub async fn add_namespace(&self, name: &str) -> Result<()> {
        self.kubectl(&["create", "namespace", name]).await?;
        self.kubectl(&["create", "serviceaccount", "default", "--namespace", name]).await.map(|_| ())
    }

    /// Creates a pod with the status of a running, ready pod.
    pub async fn add_pod(&self, pod: &Pod) -> Result<()> {
        let object = pod.object();
        self.apply(&Manifests::read(&object.to_string())?).await?;
        let status = json!({"status": object.get("status")}).to_string();
        let pod = ["pod", &pod.name, "--namespace", &pod.namespace];
        let patch = ["patch", "--subresource=status", "--type=merge", "--patch", &status];
        self.kubectl(&[&patch[..], &pod[..]].concat()).await.map(|_| ())
    }

    async fn wait_ready(&self) -> Result<()> {
        wait::until(START_LIMIT, "the API server is ready", async || {
            self.etcd.ensure_running()?;
            self.server.ensure_running()?;
            Ok(self.kubectl(&["get", "--raw=/readyz"]).await.ok())
        })
        .await
        .map(|_| ())
        .with_context(|| self.server.log_extract())
    }
}

fn start_etcd(tools: &Tools, run_dir: &Path, clients: &str) -> Result<Process> {
    let peers = format!("http://{}", port::loopback(port::free()?));
    let mut command = program(tools, "etcd")?;
    command
        .args(["--data-dir", "etcd", "--unsafe-no-fsync"])
        .args(["--listen-client-urls", clients, "--advertise-client-urls", clients])
        .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
        .arg(format!("--initial-cluster=default={peers}"))
        .current_dir(run_dir);
    start("etcd", command, run_dir)
}

/// Returns a kubeconfig as JSON, which is also valid YAML.
fn kubeconfig_for(server: &str, token: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "insecure-skip-tls-verify": true}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    })
}
