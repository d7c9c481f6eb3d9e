use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Result, ensure};
use bulk_reshuffle_stack::{Process, Tools, port};
use serde_json::json;

use crate::api_server::ApiServer;
use crate::manifests::Manifests;
use crate::process::{make_folder, program, start, wait_answer, wait_for};

/// The namespace of istiod.
pub const NAMESPACE: &str = "istio-system";

/// The webhook by which istiod validates applied resources.
const VALIDATOR: &str = "istio-validator";

/// An additional name in istiod's certificate, beside its name in a cluster.
const HOST: &str = "localhost";

/// istiod: delivers the API server's resources to proxies, signs the mesh's certificates and rejects invalid resources.
/// Dropping it kills the process.
#[derive(Debug)]
pub struct Istiod {
    process: Process,
    address: SocketAddr,
}

impl Istiod {
    /// Starts istiod and returns when it serves proxies and validates applied resources. Istio's resources and the
    /// namespace must exist in the API server before.
    pub async fn start(tools: &Tools, run_dir: &Path, api: &ApiServer) -> Result<Self> {
        make_folder(run_dir)?;
        let free = || port::free().map(port::loopback);
        let (address, webhook, http) = (free()?, free()?, free()?);
        let mesh = json!({
            "rootNamespace": NAMESPACE,
            "trustDomain": "cluster.local",
            "ingressControllerMode": "OFF",
        });
        fs::write(run_dir.join("mesh.yaml"), mesh.to_string())?;
        let mut command = program(tools, "pilot-discovery")?;
        command
            .args(["discovery", "--registries=Kubernetes", "--meshConfig=mesh.yaml", "--networksConfig=none"])
            .arg("--kubeconfig")
            .arg(&api.kubeconfig)
            .arg(format!("--secureGRPCAddr={address}"))
            .arg(format!("--httpsAddr={webhook}"))
            .arg(format!("--httpAddr={http}"))
            .arg(format!("--grpcAddr={}", free()?))
            .arg(format!("--monitoringAddr={}", free()?))
            .args(["--ctrlz_address=127.0.0.1".to_owned(), format!("--ctrlz_port={}", port::free()?)])
            .arg("--shutdownDuration=1s")
            .envs([("POD_NAMESPACE", NAMESPACE), ("POD_NAME", "istiod-0"), ("CLUSTER_ID", "Kubernetes")])
            .envs([("REVISION", "default"), ("ENABLE_LEADER_ELECTION", "false")])
            .env("INJECT_ENABLED", "false")
            .envs([("VALIDATION_WEBHOOK_CONFIG_NAME", VALIDATOR), ("ISTIOD_CUSTOM_HOST", HOST)])
            // Only Istio's own build of Envoy has these two filters.
            .envs([("PILOT_ENABLE_METADATA_EXCHANGE", "false"), ("PILOT_ENABLE_ALPN_FILTER", "false")])
            .current_dir(run_dir);
        let process = start("istiod", command, run_dir)?;
        wait_answer(&process, "istiod is ready", &format!("http://{http}/ready")).await?;
        let istiod = Self { process, address };
        istiod.validate_by(api, webhook).await?;
        Ok(istiod)
    }

    /// Returns the address at which proxies get their configuration and certificates over TLS. The host is `localhost`,
    /// as in istiod's own certificate.
    pub fn address(&self) -> String {
        format!("{HOST}:{}", self.address.port())
    }

    /// Configures istiod as the API server's validating webhook. The API server accepts everything until istiod has
    /// added its CA's certificate and has received a first call.
    async fn validate_by(&self, api: &ApiServer, webhook: SocketAddr) -> Result<()> {
        let groups = ["security.istio.io", "networking.istio.io", "telemetry.istio.io", "extensions.istio.io"];
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": VALIDATOR, "labels": {"istio.io/rev": "default"}},
            "webhooks": [{
                "name": "validation.istio.io",
                "clientConfig": {"url": format!("https://{HOST}:{}/validate", webhook.port())},
                "rules": [{
                    "operations": ["CREATE", "UPDATE"],
                    "apiGroups": groups,
                    "apiVersions": ["*"],
                    "resources": ["*"],
                }],
                "failurePolicy": "Ignore",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        });
        api.apply(&Manifests::read(&configuration.to_string())?).await?;
        let policy = ["get", "validatingwebhookconfiguration", VALIDATOR, "--output=jsonpath={..failurePolicy}"];
        wait_for(&self.process, "istiod validates applied resources", async || {
            let policy = api.kubectl(&policy).await?;
            ensure!(policy == "Fail");
            Ok(())
        })
        .await
    }
}
