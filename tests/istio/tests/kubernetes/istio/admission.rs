//! Dry runs of each manifest: validation by the API server and istiod.

use std::process::Command;

use anyhow::{Result, ensure};
use bulk_reshuffle_istio::{Folder, OVERLAYS, Report, yaml_in};

use super::{Site, pages};

/// Plain files, and folders of plain files.
const PLAIN: [&str; 7] = [
    "istio/examples/statefulset",
    "istio/examples/gateway",
    "istio/examples/state-credentials",
    "istio/examples/eck/elasticsearch.yaml",
    "istio/examples/eck/layout.yaml",
    "istio/examples/opensearch-operator/layout.yaml",
    "examples/envoy-gateway",
];

/// Components that no shipped overlay has.
const COMPONENTS: [(&str, &str); 7] = [
    ("gateway-envoyfilter", "mtls"),
    ("sidecar-wasmplugin", "mtls"),
    ("gateway-wasmplugin", "tls"),
    ("gateway-trafficextension", "pull-secret"),
    ("sidecar-wasmplugin", "pull-secret"),
    ("gateway-envoyfilter", "named-upstreams"),
    ("gateway-wasmplugin", "state-credentials"),
];

/// Mistakes: the overlay, the correct text, the mistake, and the expected error.
const MISTAKES: [(&str, &str, &str, &str); 4] = [
    ("wasmplugin", "imagePullPolicy: IfNotPresent", "pullPolicy: IfNotPresent", "unknown field \"spec.pullPolicy\""),
    ("wasmplugin", "imagePullPolicy: IfNotPresent", "imagePullPolicy: Sometimes", "Unsupported value: \"Sometimes\""),
    ("envoyfilter", "operation: ADD", "operation: APPEND", "Unsupported value: \"APPEND\""),
    // Only istiod knows Envoy's fields in a patch.
    (
        "envoyfilter",
        "failure_policy: FAIL_RELOAD",
        "failure_policy: FAIL_RELAOD",
        "\"validation.istio.io\" denied the request",
    ),
];

/// The delivery column of these rows.
const DRY_RUN: &str = "dry run on the server";

/// Checks that every shipped manifest is accepted and that each mistake is rejected.
pub async fn check(site: &Site, report: &mut Report) {
    for overlay in OVERLAYS {
        report.add(overlay, DRY_RUN, built(site, &format!("istio/overlays/{overlay}"))).await;
    }
    for (overlay, component) in COMPONENTS {
        report.add(&format!("{overlay} with components/{component}"), DRY_RUN, added(site, overlay, component)).await;
    }
    report.add("examples/kubernetes", DRY_RUN, built(site, "examples/kubernetes")).await;
    report.add("examples/kubernetes by Helm", DRY_RUN, chart(site)).await;
    for path in PLAIN {
        report.add(path, DRY_RUN, plain(site, path)).await;
    }
    report.add(pages::PAGE, DRY_RUN, pages::apply(&site.servers.api)).await;
    report.add("with one mistake each", DRY_RUN, mistakes(site)).await;
}

/// Checks the resources that `kubectl apply --kustomize` applies.
async fn built(site: &Site, folder: &str) -> Result<String> {
    let path = site.tools.root.join(folder).display().to_string();
    let yaml = site.servers.api.kubectl(&["kustomize", &path]).await?;
    site.servers.api.check(&yaml).await.map(counted)
}

/// Checks the resources that `helm install` applies.
async fn chart(site: &Site) -> Result<String> {
    let mut helm = Command::new(site.tools.folder("helm")?.join("helm"));
    let output = helm.args(["template", "bulk-reshuffle"]).arg(site.tools.root.join("examples/kubernetes")).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    site.servers.api.check(&String::from_utf8(output.stdout)?).await.map(counted)
}

async fn added(site: &Site, overlay: &str, component: &str) -> Result<String> {
    let folder = Folder::shipped()?;
    folder.add_component(overlay, component)?;
    site.servers.api.check(&folder.build(overlay)?).await.map(counted)
}

async fn plain(site: &Site, path: &str) -> Result<String> {
    let file = site.tools.root.join(path);
    let yaml = if file.is_dir() { yaml_in(&file)? } else { site.text(path)? };
    site.servers.api.check(&yaml).await.map(counted)
}

async fn mistakes(site: &Site) -> Result<String> {
    for (overlay, right, wrong, told) in MISTAKES {
        let folder = Folder::shipped()?;
        let overlay = &format!("gateway-{overlay}");
        folder.edit(&format!("overlays/{overlay}/filter.yaml"), right, wrong)?;
        let error = match site.servers.api.check(&folder.build(overlay)?).await {
            Ok(_) => "accepted".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        ensure!(error.contains(told), "`{wrong}`: {error}");
    }
    Ok(format!("{} of {} rejected", MISTAKES.len(), MISTAKES.len()))
}

fn counted(resources: usize) -> String {
    format!("{resources} accepted")
}
