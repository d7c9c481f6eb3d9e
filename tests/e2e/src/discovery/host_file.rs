use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use crate::envoy_config::load_assignment;
use crate::replace_file;

/// A file from which Envoy learns the hosts of an upstream by EDS.
#[derive(Debug)]
pub struct HostFile {
    upstream: &'static str,
    path: PathBuf,
}

impl HostFile {
    /// Creates the file of this upstream with its first hosts.
    pub fn create(folder: &Path, upstream: &'static str, hosts: &[SocketAddr]) -> Result<Self> {
        let file = Self { upstream, path: folder.join(format!("{upstream}-hosts.json")) };
        file.set(hosts)?;
        Ok(file)
    }

    /// Returns the fields of the upstream that uses the file.
    pub fn fields(&self) -> Value {
        let source = json!({"path_config_source": {"path": self.path}, "resource_api_version": "V3"});
        json!({"type": "EDS", "eds_cluster_config": {"eds_config": source}})
    }

    /// Replaces the hosts.
    pub fn set(&self, hosts: &[SocketAddr]) -> Result<()> {
        let mut resource = load_assignment(self.upstream, hosts);
        resource["@type"] = json!("type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment");
        replace_file(&self.path, json!({"resources": [resource]}).to_string())
    }
}
