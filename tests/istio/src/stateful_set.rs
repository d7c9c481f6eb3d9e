use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::Tools;
use serde_json::{Value, json};

use crate::manifests::{Manifests, set_field};
use crate::nodes::Nodes;
use crate::pod::Pod;
use crate::site::NAMESPACE;

/// The example's StatefulSet and Services, and the pods that Kubernetes' controllers create.
#[derive(Debug, Clone)]
pub struct StatefulSet {
    services: Vec<Value>,
    /// The pods, in the order of their indices.
    pub pods: Vec<Pod>,
}

impl StatefulSet {
    /// Reads the example, with ready pods at these addresses.
    pub fn of_example(tools: &Tools, hosts: &[Ipv4Addr]) -> Result<Self> {
        let example = std::fs::read_to_string(tools.root.join("istio/examples/statefulset/opensearch.yaml"))?;
        let example = Manifests::read(&example)?;
        let set = example.all("StatefulSet").next().context("the example has no StatefulSet")?;
        let name = name_of(set).context("the StatefulSet has no name")?;
        let labels = set.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
        let labels = labels.context("the StatefulSet's pods have no labels")?;
        let pod = |(index, host): (usize, &Ipv4Addr)| Pod::of_stateful_set(NAMESPACE, name, index, labels, *host);
        let mut services: Vec<Value> = example.all("Service").cloned().collect();
        for spec in services.iter_mut().filter_map(|service| service.get_mut("spec")) {
            if spec.get("clusterIP").is_none() {
                set_field(spec, "clusterIP", &json!("10.96.0.1"));
            }
        }
        Ok(Self { services, pods: hosts.iter().enumerate().map(pod).collect() })
    }

    /// Returns the pods, Services and EndpointSlices.
    pub fn objects(&self) -> impl Iterator<Item = Value> {
        let slices = self
            .services
            .iter()
            .filter_map(name_of)
            .map(|service| Pod::endpoint_slice(service, "http", Nodes::PORT, &self.pods));
        self.pods.iter().map(Pod::object).chain(self.services.iter().cloned()).chain(slices)
    }
}

fn name_of(resource: &Value) -> Option<&str> {
    resource.pointer("/metadata/name")?.as_str()
}
