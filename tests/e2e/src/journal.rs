use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::sync::watch;

use crate::recorded::Recorded;

const LIMIT: Duration = Duration::from_secs(15);

/// The requests that arrived, in their order.
#[derive(Debug)]
pub(crate) struct Journal(watch::Sender<Vec<Recorded>>);

impl Default for Journal {
    fn default() -> Self {
        Self(watch::Sender::new(Vec::new()))
    }
}

impl Journal {
    /// What is written so far.
    pub(crate) fn read(&self) -> Vec<Recorded> {
        self.0.borrow().clone()
    }

    /// Writes another request.
    pub(crate) fn write(&self, request: Recorded) {
        self.0.send_modify(|requests| requests.push(request));
    }

    /// Removes what is written so far.
    pub(crate) fn clear(&self) {
        self.0.send_modify(Vec::clear);
    }

    /// Waits until the requests are as they should be, and returns them; an error that shows them if that does not
    /// come true in time.
    pub(crate) async fn wait_for(
        &self,
        what: &str,
        mut is_so: impl FnMut(&[Recorded]) -> bool,
    ) -> Result<Vec<Recorded>> {
        let mut requests = self.0.subscribe();
        let wait = requests.wait_for(|requests| is_so(requests));
        match tokio::time::timeout(LIMIT, wait).await {
            Ok(requests) => Ok(requests?.clone()),
            Err(_) => Err(anyhow!("timed out waiting for: {what}; there are\n{}", self.summary())),
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
