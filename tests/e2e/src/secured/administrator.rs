use std::sync::Arc;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::Response;
use bytes::Bytes;
use hyper::{Method, Request};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{Nodes, TlsClient, basic};

/// A client that may do everything, among them what no user may: change users and roles.
#[derive(Debug, Clone)]
pub struct Administrator {
    client: TlsClient,
    nodes: Nodes,
    /// Held during a change of users and roles, because the nodes refuse one of two changes at the same time.
    change: Arc<Mutex<()>>,
}

impl Administrator {
    pub(super) fn new(client: TlsClient, nodes: Nodes, change: Arc<Mutex<()>>) -> Self {
        Self { client, nodes, change }
    }

    /// Creates or replaces a role. Returns when all nodes know it.
    pub async fn role(&self, name: &str, role: &Value) -> Result<()> {
        let _change = self.change.lock().await;
        self.put(&format!("/_plugins/_security/api/roles/{name}"), role).await
    }

    /// Creates or replaces a user. Returns when all nodes know it.
    pub async fn user(&self, name: &str, password: &str, roles: &[&str]) -> Result<String> {
        let user = json!({"password": password, "opendistro_security_roles": roles});
        let _change = self.change.lock().await;
        self.put(&format!("/_plugins/_security/api/internalusers/{name}"), &user).await?;
        Ok(basic(name, password))
    }

    /// Removes a user. Returns when no node knows it.
    pub async fn remove_user(&self, name: &str) -> Result<()> {
        let _change = self.change.lock().await;
        self.delete(&format!("/_plugins/_security/api/internalusers/{name}")).await
    }

    pub async fn get(&self, path: &str) -> Result<Value> {
        self.get_from(0, path).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<()> {
        self.send(0, Method::PUT, path, body.to_string()).await.map(|_| ())
    }

    pub async fn delete(&self, path: &str) -> Result<()> {
        self.send(0, Method::DELETE, path, "").await.map(|_| ())
    }

    pub(super) async fn get_from(&self, node: usize, path: &str) -> Result<Value> {
        self.send(node, Method::GET, path, "").await?.json()
    }

    async fn send(&self, node: usize, method: Method, path: &str, body: impl Into<Bytes>) -> Result<Response> {
        let (_, address) = self.nodes.get(node).context("no such node")?;
        let what = format!("{method} {path}");
        let request = Request::builder().method(method).uri(format!("https://{address}{path}"));
        let request = request.header("content-type", "application/json").body(body.into())?;
        self.client.send(request).await?.ok().context(what)
    }
}
