use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::sync::watch;

use crate::recorded::Recorded;

const LIMIT: Duration = Duration::from_secs(15);

/// The received requests, in the order of arrival.
#[derive(Debug)]
pub(crate) struct Journal(watch::Sender<Vec<Recorded>>);

impl Default for Journal {
    fn default() -> Self {
        Self(watch::Sender::new(Vec::new()))
    }
}

impl Journal {
    /// Returns the requests so far.
    pub(crate) fn read(&self) -> Vec<Recorded> {
        self.0.borrow().clone()
    }

    /// Appends a request.
    pub(crate) fn write(&self, request: Recorded) {
        self.0.send_modify(|requests| requests.push(request));
    }

    /// Removes the requests so far.
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
