use tokio::sync::watch;

/// A gate that is closed until the test opens it. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate(watch::Sender<bool>);

impl Default for Gate {
    fn default() -> Self {
        Self::closed()
    }
}

impl Gate {
    /// Creates a closed gate.
    pub fn closed() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until the gate is open.
    pub(crate) async fn pass(&self) {
        // An error would mean that the sender was dropped, but `self` holds it.
        self.0.subscribe().wait_for(|open| *open).await.ok();
    }
}
