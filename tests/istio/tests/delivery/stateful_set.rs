use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use bulk_reshuffle_istio::{Manifests, Pod};
use bulk_reshuffle_stack::Tools;
use serde_json::{Value, json};

use crate::site::{NAMESPACE, PORT};

/// The example's StatefulSet and Services, and the pods that Kubernetes' controllers create.
#[derive(Clone)]
pub struct StatefulSet {
    services: Vec<Value>,
    pub pods: Vec<Pod>,
}

impl StatefulSet {
    /// Reads the example, with ready pods at these addresses.
    pub fn of_example(tools: &Tools, hosts: &[Ipv4Addr]) -> Result<Self> {
        let example = std::fs::read_to_string(tools.root.join("istio/examples/statefulset/opensearch.yaml"))?;
        let example = Manifests::read(&example)?;
        let set = example.all("StatefulSet").next().context("the example has no StatefulSet")?;
        let name = set["metadata"]["name"].as_str().context("the StatefulSet has no name")?;
        let labels = set["spec"]["template"]["metadata"]["labels"]
            .as_object()
            .context("the StatefulSet's pods have no labels")?;
        let pod = |(index, host): (usize, &Ipv4Addr)| Pod::of_stateful_set(NAMESPACE, name, index, labels, *host);
        let mut services: Vec<Value> = example.all("Service").cloned().collect();
        for service in services.iter_mut().filter(|service| service["spec"]["clusterIP"].is_null()) {
            service["spec"]["clusterIP"] = json!("10.96.0.1");
        }
        Ok(Self { services, pods: hosts.iter().enumerate().map(pod).collect() })
    }

    /// Returns the pods, Services and EndpointSlices.
    pub fn objects(&self) -> impl Iterator<Item = Value> {
        let slices = self.services.iter().filter_map(|service| service["metadata"]["name"].as_str());
        let slices = slices.map(|service| Pod::endpoint_slice(service, "http", PORT, &self.pods));
        self.pods.iter().map(Pod::object).chain(self.services.iter().cloned()).chain(slices)
    }
}
