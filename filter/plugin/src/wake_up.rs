//! A wake-up: lets a stream's callback request a root callback, in the next iteration of the event loop.
//!
//! Calls have to be made from a root callback: the SDK drops the answer to a call whose context has ended, and a stream
//! may end before its batch is answered. A shared queue wakes the root that registered it last, so each root has its
//! own queue, under a number from shared data.

use std::time::UNIX_EPOCH;

use proxy_wasm::hostcalls;
use proxy_wasm::types::Status;

const COUNTER: &str = "bulk_reshuffle.wake_up";

/// The number of attempts to get a number while other roots get theirs.
const ATTEMPTS: usize = 1000;

/// A root's own queue.
#[derive(Debug, Clone, Copy)]
pub struct WakeUp(u32);

impl WakeUp {
    /// Registers a queue for the root that is being configured.
    pub fn register() -> Result<Self, Status> {
        let number = draw_number()?;
        // Two roots could both get the very first number at the same moment; the time tells them apart.
        let time = hostcalls::get_current_time()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        hostcalls::register_shared_queue(&format!("{COUNTER}.{number}.{time}")).map(Self)
    }

    /// Returns whether this is the queue that became ready.
    pub fn is(&self, queue: u32) -> bool {
        self.0 == queue
    }

    /// Requests a call of `on_queue_ready`.
    pub fn ask(&self) -> Result<(), Status> {
        hostcalls::enqueue_shared_queue(self.0, Some(b"!"))
    }

    /// Empties the queue.
    pub fn clear(&self) {
        while let Ok(Some(_)) = hostcalls::dequeue_shared_queue(self.0) {}
    }
}

fn draw_number() -> Result<u64, Status> {
    for _ in 0..ATTEMPTS {
        let (value, version) = hostcalls::get_shared_data(COUNTER)?;
        let last = value.and_then(|bytes| bytes.as_slice().try_into().ok()).map_or(0, u64::from_le_bytes);
        let number = last.wrapping_add(1);
        match hostcalls::set_shared_data(COUNTER, Some(&number.to_le_bytes()), version) {
            Err(Status::CasMismatch) => {}
            other => return other.map(|()| number),
        }
    }
    Err(Status::CasMismatch)
}
