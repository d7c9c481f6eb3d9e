use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use bulk_reshuffle_stack::Tools;
use serde_json::{Map, Value, json};

use crate::manifests::{Manifests, set_field};
use crate::nodes::Nodes;
use crate::site::NAMESPACE;

/// A pod in the state in which its controller, the scheduler and the kubelet leave it.
#[derive(Debug, Clone)]
pub struct Pod {
    pub name: String,
    pub namespace: String,
    /// The service account, which is the pod's identity.
    pub account: String,
    pub labels: Map<String, Value>,
    pub address: Ipv4Addr,
    pub is_ready: bool,
}

impl Pod {
    /// Creates a ready pod with these labels and the namespace's own service account.
    pub fn new(namespace: &str, name: &str, labels: Map<String, Value>, address: Ipv4Addr) -> Self {
        let (name, namespace) = (name.into(), namespace.into());
        Self { name, namespace, account: "default".into(), labels, address, is_ready: true }
    }

    /// Creates a pod of a StatefulSet, with the labels of the template and those that the controller adds.
    pub fn of_stateful_set(
        namespace: &str,
        set: &str,
        index: usize,
        template: &Map<String, Value>,
        address: Ipv4Addr,
    ) -> Self {
        let (name, mut labels) = (format!("{set}-{index}"), template.clone());
        labels.insert("statefulset.kubernetes.io/pod-name".into(), json!(name));
        labels.insert("apps.kubernetes.io/pod-index".into(), json!(index.to_string()));
        Self::new(namespace, &name, labels, address)
    }

    /// Returns the Kubernetes object of the running pod.
    pub fn object(&self) -> Value {
        let address = self.address.to_string();
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": self.labels},
            "spec": {
                "nodeName": "node",
                "serviceAccountName": self.account,
                "containers": [{"name": "main", "image": "none"}],
            },
            "status": {
                "phase": "Running",
                "podIP": address,
                "podIPs": [{"ip": address}],
                "conditions": [{"type": "Ready", "status": if self.is_ready { "True" } else { "False" }}],
            },
        })
    }

    /// Returns the EndpointSlice that the controller creates for a service's pods.
    pub fn endpoint_slice(service: &str, port_name: &str, port: u16, pods: &[Self]) -> Value {
        let endpoints: Vec<Value> = pods.iter().map(Self::endpoint).collect();
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{service}-slice"),
                "namespace": pods.first().map(|pod| &pod.namespace),
                "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "ports": [{"name": port_name, "port": port, "protocol": "TCP"}],
            "endpoints": endpoints,
        })
    }

    /// Returns a Sidecar in place of the kernel rules that redirect a pod's connections to its sidecar. The sidecar
    /// forwards them to a node.
    pub fn inbound(&self, node: SocketAddr) -> Value {
        json!({
            "apiVersion": "networking.istio.io/v1",
            "kind": "Sidecar",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "workloadSelector": {"labels": {"statefulset.kubernetes.io/pod-name": self.name}},
                "ingress": [{
                    "port": {"number": Nodes::PORT, "name": "http", "protocol": "HTTP"},
                    "bind": self.address.to_string(),
                    "captureMode": "NONE",
                    "defaultEndpoint": node.to_string(),
                }],
                "egress": [{"hosts": ["~/*"]}],
            },
        })
    }

    fn endpoint(&self) -> Value {
        json!({
            "addresses": [self.address.to_string()],
            "hostname": self.name,
            "conditions": {"ready": self.is_ready},
            "targetRef": {"kind": "Pod", "name": self.name, "namespace": self.namespace},
        })
    }
}

/// The example's StatefulSet and Services, and the pods that Kubernetes' controllers create.
#[derive(Debug, Clone)]
pub struct StatefulSet {
    name: String,
    /// The labels of the pods' template.
    labels: Map<String, Value>,
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
        let mut services: Vec<Value> = example.all("Service").cloned().collect();
        for spec in services.iter_mut().filter_map(|service| service.get_mut("spec")) {
            if spec.get("clusterIP").is_none() {
                set_field(spec, "clusterIP", &json!("10.96.0.1"));
            }
        }
        let mut set = Self { name: name.to_owned(), labels: labels.clone(), services, pods: Vec::new() };
        for host in hosts {
            set.pods.push(set.next(*host));
        }
        Ok(set)
    }

    /// Returns the pod that the controller creates next, with an address.
    pub fn next(&self, address: Ipv4Addr) -> Pod {
        Pod::of_stateful_set(NAMESPACE, &self.name, self.pods.len(), &self.labels, address)
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
