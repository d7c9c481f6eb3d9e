use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::{Envoy, EnvoyOptions, Tools, port};
use serde_json::Value;

use crate::envoy_config::listen_on_loopback;

/// The Envoy of a pod of `examples/kubernetes`, on loopback and with the module that `make build` builds.
#[derive(Debug)]
pub struct KubernetesPod {
    /// Envoy with the arguments of the manifest.
    pub envoy: Envoy,
    /// The port of the listener for probes.
    pub probes: u16,
    admin: u16,
    container: Value,
}

impl KubernetesPod {
    /// Starts Envoy in front of these nodes. The name distinguishes several pods in one folder.
    pub async fn start(folder: &Path, name: &str, nodes: &[SocketAddr]) -> Result<Self> {
        let tools = Tools::find()?;
        let container = container(&example(&tools, "bulk-reshuffle.yaml"))?;
        let (admin, probes) = (port::free()?, port::free()?);
        let options = EnvoyOptions::new(folder).cluster("es", nodes.iter().copied());
        let options = options.cluster("admin", [port::loopback(admin)]);
        let options = EnvoyOptions {
            name: name.to_owned(),
            config: Some(example(&tools, "envoy.yaml")),
            admin_port: Some(admin),
            concurrency: argument(&container, "concurrency")?.parse()?,
            drain_time: Duration::from_secs(argument(&container, "drain-time-s")?.parse()?),
            drain_at_once: argument(&container, "drain-strategy")? == "immediate",
            ..options
        };
        let options = options.edit(move |config| {
            listen_on_loopback(config, probes);
            Ok(())
        });
        Ok(Self { envoy: Envoy::start(&tools, options).await?, probes, admin, container })
    }

    /// Returns the manifest's `preStop` command, without its sleep.
    pub fn pre_stop(&self) -> Result<Command> {
        let words = self.container.pointer("/lifecycle/preStop/exec/command").and_then(Value::as_array);
        let mut words = words.context("no preStop")?.iter().filter_map(Value::as_str).map(|word| {
            word.replace("127.0.0.1/9901", &format!("127.0.0.1/{}", self.admin)).replace("sleep 150", "true")
        });
        let mut command = Command::new(words.next().context("no command")?);
        command.args(words);
        Ok(command)
    }
}

fn example(tools: &Tools, file: &str) -> PathBuf {
    tools.root.join("examples/kubernetes").join(file)
}

fn container(manifests: &Path) -> Result<Value> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(&fs::read_to_string(manifests)?)?;
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment");
    let container = deployment.and_then(|deployment| deployment.pointer("/spec/template/spec/containers/0"));
    container.cloned().context("no container")
}

/// Returns the value of one of Envoy's arguments in the manifest.
fn argument<'a>(container: &'a Value, name: &str) -> Result<&'a str> {
    let arguments = container["args"].as_array().context("no arguments")?.iter().filter_map(Value::as_str);
    let found = |argument: &'a str| argument.strip_prefix("--")?.strip_prefix(name)?.strip_prefix('=');
    arguments.filter_map(found).next().with_context(|| format!("no argument {name}"))
}
