use std::net::{Ipv4Addr, SocketAddr};

use serde_json::{Map, Value, json};

use crate::nodes::Nodes;

/// A pod in the state in which its controller, the scheduler and the kubelet leave it.
#[derive(Debug, Clone)]
pub struct Pod {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.labels`.
    pub labels: Map<String, Value>,
    /// `status.podIP`.
    pub address: Ipv4Addr,
    /// Whether the pod's readiness probes succeed.
    pub is_ready: bool,
}

impl Pod {
    /// Creates a ready pod with these labels.
    pub fn new(namespace: &str, name: &str, labels: Map<String, Value>, address: Ipv4Addr) -> Self {
        Self { name: name.into(), namespace: namespace.into(), labels, address, is_ready: true }
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
            "spec": {"nodeName": "node", "serviceAccountName": "default", "containers": [{"name": "main", "image": "none"}]},
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
