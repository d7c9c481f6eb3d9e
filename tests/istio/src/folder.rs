use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::Tools;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::manifests::Manifests;
use crate::nodes::Nodes;
use crate::pod::Pod;
use crate::site::NAMESPACE;

/// The shipped overlays.
pub const OVERLAYS: [&str; 5] = [
    "gateway-envoyfilter",
    "gateway-wasmplugin",
    "gateway-trafficextension",
    "sidecar-envoyfilter",
    "sidecar-wasmplugin",
];

/// A copy of the manifests that tests can change.
#[derive(Debug)]
pub struct Folder {
    tools: Tools,
    copy: TempDir,
}

impl Folder {
    pub fn shipped() -> Result<Self> {
        let (tools, copy) = (Tools::find()?, tempfile::tempdir()?);
        copy_all(&tools.root.join("istio"), copy.path())?;
        Ok(Self { tools, copy })
    }

    pub fn root(&self) -> &Path {
        &self.tools.root
    }

    pub fn text(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.copy.path().join(file)).with_context(|| file.to_owned())
    }

    /// Replaces a text that a file must contain exactly once.
    pub fn edit(&self, file: &str, from: &str, to: &str) -> Result<()> {
        let text = self.text(file)?;
        ensure!(text.matches(from).count() == 1, "{file} does not contain `{from}` exactly once");
        Ok(fs::write(self.copy.path().join(file), text.replace(from, to))?)
    }

    pub fn values(&self) -> Result<Value> {
        Ok(serde_saphyr::from_str(&self.text("base/values.yaml")?)?)
    }

    pub fn set_values(&self, values: &Value) -> Result<()> {
        Ok(fs::write(self.copy.path().join("base/values.yaml"), values.to_string())?)
    }

    /// Sets values, each at its JSON pointer.
    pub fn set<const N: usize>(&self, fields: [(&str, Value); N]) -> Result<()> {
        let mut values = self.values()?;
        for (pointer, value) in fields {
            *values.pointer_mut(pointer).with_context(|| format!("the values have no {pointer}"))? = value;
        }
        self.set_values(&values)
    }

    /// Sets the module's location to a file.
    pub fn set_module(&self, wasm: &Path) -> Result<()> {
        let wasm = wasm.canonicalize()?;
        self.set([
            ("/module/image/url", json!(format!("file://{}", wasm.display()))),
            ("/module/code", json!({"local": {"filename": wasm}})),
        ])
    }

    /// Sets fields of the filter's configuration, in both of its forms.
    pub fn configure(&self, fields: &Value) -> Result<()> {
        let filter = self.values()?["filter"].take();
        let text = filter["configuration"].as_str().context("the values have no configuration")?;
        let (mut of_text, mut object): (Value, Value) = (serde_json::from_str(text)?, filter["pluginConfig"].clone());
        for (field, value) in fields.as_object().context("the fields are not an object")? {
            of_text[field] = value.clone();
            object[field] = value.clone();
        }
        self.set([("/filter/configuration", json!(of_text.to_string())), ("/filter/pluginConfig", object)])
    }

    /// Adds `components/named-upstreams`, and configures the filter for it.
    pub fn name_upstreams(&self, overlay: &str) -> Result<()> {
        self.add_component(overlay, "named-upstreams")?;
        self.configure(&json!({"nodes": {"upstream": "outbound|9200||{name}.es.internal"}}))
    }

    /// Tells the filter the addresses of pods whose nodes report others.
    pub fn set_addresses(&self, pods: &[Pod]) -> Result<()> {
        let address = |pod: &Pod| (pod.name.clone(), json!(format!("{}:{}", pod.address, Nodes::PORT)));
        let addresses: Map<String, Value> = pods.iter().map(address).collect();
        let mut nodes = self.values()?["filter"]["pluginConfig"]["nodes"].take();
        nodes["addresses"] = json!(addresses);
        self.configure(&json!({"nodes": nodes}))
    }

    /// Adds `components/state-credentials` with the Secret mounted at another folder, and configures the filter for it.
    pub fn take_credentials(&self, overlay: &str, mounted: &Path) -> Result<()> {
        const SHIPPED: &str = "path: /run/secrets/bulk-reshuffle";
        self.add_component(overlay, "state-credentials")?;
        let (file, mounted) = ("components/state-credentials/state.yaml", mounted.display());
        self.edit(file, &format!("{SHIPPED}/"), &format!("path: {mounted}/"))?;
        self.edit(file, &format!("{SHIPPED}}}"), &format!("path: {mounted}}}"))?;
        self.configure(&json!({
            "nodes": {"header": "x-bulk-reshuffle-node", "check": false},
            "cluster_state": {"upstream": "outbound|9200||state.es.internal"},
        }))
    }

    /// Adds `components/gateway-api` to a gateway's overlay.
    pub fn use_gateway_api(&self, overlay: &str) -> Result<()> {
        const GATEWAY: &str = "../../components/gateway, ";
        let both = format!("{GATEWAY}../../components/gateway-api, ");
        self.edit(&format!("overlays/{overlay}/kustomization.yaml"), GATEWAY, &both)
    }

    pub fn add_component(&self, overlay: &str, component: &str) -> Result<()> {
        let (before, after) = ("components: [", format!("components: [../../components/{component}, "));
        self.edit(&format!("overlays/{overlay}/kustomization.yaml"), before, &after)
    }

    /// Returns the YAML that `kubectl apply -k` applies.
    pub fn build(&self, overlay: &str) -> Result<String> {
        let kustomize = self.tools.folder("kustomize")?.join("kustomize");
        let output = Command::new(kustomize).arg(self.copy.path().join("overlays").join(overlay)).output()?;
        ensure!(output.status.success(), "{overlay}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Returns the resources that `kubectl apply -k` applies.
    pub fn manifests(&self, overlay: &str) -> Result<Manifests> {
        Manifests::read(&self.build(overlay)?)
    }

    /// Validates each resource of an overlay with `istioctl validate`. Warnings are errors.
    pub fn validate(&self, overlay: &str) -> Result<()> {
        self.validate_text(overlay, &self.build(overlay)?)
    }

    /// Validates the resources of a file in the same way.
    pub fn validate_file(&self, file: &str) -> Result<()> {
        self.validate_text(&file.replace('/', "-"), &self.text(file)?)
    }

    fn validate_text(&self, name: &str, text: &str) -> Result<()> {
        let path = self.write(&format!("{name}.yaml"), text)?;
        let told = self.istioctl(&["validate", "--filename", &path])?;
        // istioctl prints this warning for every EnvoyFilter.
        let harmless = "EnvoyFilter exposes internal implementation details that may change at any time. Prefer other APIs \
                        if possible, and exercise extreme caution, especially around upgrades.";
        let title = [format!("{path:?} is valid"), format!("{path:?} has warnings:")];
        let mut lines = told.lines().map(str::trim).filter(|line| !line.is_empty() && !line.ends_with(harmless));
        ensure!(lines.all(|line| title.iter().any(|title| line == title)), "{name}: {told}");
        Ok(())
    }

    /// Checks all resources of an overlay together with `istioctl analyze`, with the examples' gateway and cluster.
    pub fn analyze(&self, overlay: &str) -> Result<()> {
        let mut files = vec![self.write(&format!("{overlay}.yaml"), &self.build(overlay)?)?];
        for example in ["gateway/gateway.yaml", "gateway/clients.yaml", "statefulset/opensearch.yaml"] {
            let text = self.text(&format!("examples/{example}"))?;
            for workload in serde_saphyr::from_multiple::<Value>(&text)? {
                // No controller creates the workload's pods here.
                let labels = workload.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
                if let Some(labels) = labels {
                    let pod = Pod::new(NAMESPACE, "pod-0", labels.clone(), Ipv4Addr::LOCALHOST).object();
                    let kind = workload.get("kind").and_then(Value::as_str).context("a workload has no kind")?;
                    let name = format!("{kind}.yaml");
                    files.push(self.write(&name, &pod.to_string())?);
                }
            }
            files.push(self.write(&example.replace('/', "-"), &text)?);
        }
        let options = [
            "analyze",
            "--use-kube=false",
            "--all-namespaces",
            "--failure-threshold=Info",
            // The same warning as in `validate`, for every EnvoyFilter.
            "--suppress=IST0133=EnvoyFilter *",
        ];
        let arguments: Vec<&str> = options.into_iter().chain(files.iter().map(String::as_str)).collect();
        let told = self.istioctl(&arguments)?;
        ensure!(told.contains("No validation issues found"), "{overlay}: {told}");
        Ok(())
    }

    fn write(&self, file: &str, text: &str) -> Result<String> {
        let path = self.copy.path().join(file);
        fs::write(&path, text)?;
        path.into_os_string().into_string().ok().context("the path is not UTF-8")
    }

    /// Runs istioctl and returns everything that it prints.
    fn istioctl(&self, arguments: &[&str]) -> Result<String> {
        let istioctl = self.tools.folder("istioctl")?.join("istioctl");
        let output = Command::new(istioctl).args(arguments).env("HOME", self.copy.path()).output()?;
        Ok(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
    }
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, target) = (entry?, to.to_path_buf());
        let target = target.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_all(&entry.path(), &target)?,
            false => fs::copy(entry.path(), target).map(|_| ())?,
        }
    }
    Ok(())
}
