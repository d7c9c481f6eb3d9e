use tokio::sync::watch;

/// Closed until the test opens it. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate(watch::Sender<bool>);

impl Default for Gate {
    fn default() -> Self {
        Self::closed()
    }
}

impl Gate {
    /// A closed gate.
    pub fn closed() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Lets everybody through, now and later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until it is open.
    pub(crate) async fn pass(&self) {
        // An error would mean that the sender is gone, and the sender is here.
        self.0.subscribe().wait_for(|open| *open).await.ok();
    }
}
