use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use hyper::{HeaderMap, Method, Version};
use serde_json::Value;
use tokio::sync::watch;

use crate::gzip;

/// A request that arrived at a fake node, read to its end.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub node: usize,
    pub version: Version,
    pub method: Method,
    /// Path and query.
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Recorded {
    /// Returns the path without the query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub fn is_bulk(&self) -> bool {
        matches!(self.method, Method::POST | Method::PUT) && self.path().ends_with("/_bulk")
    }

    /// Returns a header's value; `None` if it is missing or is not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body, inflated if its `content-encoding` is gzip.
    pub fn plain(&self) -> Result<Vec<u8>> {
        gzip::plain(&self.headers, &self.body)
    }

    pub fn operations(&self) -> Result<Vec<Received>> {
        let default_index = self.path().strip_suffix("/_bulk").unwrap_or_default().trim_start_matches('/');
        Received::read_all(&self.plain()?, default_index)
    }
}

const LIMIT: Duration = Duration::from_secs(15);

/// The received requests, in the order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Journal(watch::Sender<Vec<Recorded>>);

impl Journal {
    pub(crate) fn read(&self) -> Vec<Recorded> {
        self.0.borrow().clone()
    }

    pub(crate) fn write(&self, request: Recorded) {
        self.0.send_modify(|requests| requests.push(request));
    }

    pub(crate) fn clear(&self) {
        self.0.send_modify(Vec::clear);
    }

    /// Waits until the requests satisfy a condition, and returns them. On a timeout, returns an error that lists them.
    pub(crate) async fn wait_for(
        &self,
        what: &str,
        mut is_so: impl FnMut(&[Recorded]) -> bool,
    ) -> Result<Vec<Recorded>> {
        let mut requests = self.0.subscribe();
        let wait = requests.wait_for(|requests| is_so(requests));
        match tokio::time::timeout(LIMIT, wait).await {
            Ok(requests) => Ok(requests?.clone()),
            Err(_) => Err(anyhow!("timed out waiting for: {what}; received so far:\n{}", self.summary())),
        }
    }

    fn summary(&self) -> String {
        let line = |request: &Recorded| {
            let Recorded { node, method, target, body, .. } = request;
            format!("es-{node}: {method} {target}, {} bytes\n", body.len())
        };
        self.0.borrow().iter().take(20).map(line).collect()
    }
}

/// An operation as a node reads it. The reader is independent of the filter's, so that it does not share its bugs.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// `index`, `create`, `update` or `delete`.
    pub action: String,
    /// The index, from the line or else from the path.
    pub index: String,
    /// The document's id; if there is none, the cluster generates one.
    pub id: Option<String>,
    /// The source line; a `delete` has none.
    pub source: Option<Value>,
}

impl Received {
    /// Reads a body. Operations that name no index are for `default_index`.
    pub(crate) fn read_all(body: &[u8], default_index: &str) -> Result<Vec<Self>> {
        let mut lines = body.split(|byte| *byte == b'\n');
        let mut operations = Vec::new();
        while let Some(line) = lines.next() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let mut operation = Self::read_action(line, default_index)?;
            if operation.action != "delete" {
                let source = lines.next().context("no source line")?;
                // A source that is not JSON is an error of one item, not of the request.
                operation.source = Some(serde_json::from_slice(source).unwrap_or(Value::Null));
            }
            operations.push(operation);
        }
        Ok(operations)
    }

    fn read_action(line: &[u8], default_index: &str) -> Result<Self> {
        let line: Value = serde_json::from_slice(line).context("not an action line")?;
        let (action, parameters) = line.as_object().and_then(|line| line.iter().next()).context("no action")?;
        let text = |name: &str| match parameters.get(name) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        Ok(Self {
            action: action.clone(),
            index: text("_index").unwrap_or_else(|| default_index.to_owned()),
            id: text("_id"),
            source: None,
        })
    }
}
