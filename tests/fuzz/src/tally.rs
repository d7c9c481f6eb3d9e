//! What a target has checked, told when its process ends.

use std::cell::RefCell;

#[derive(Default)]
struct Tally {
    inputs: u64,
    bytes: u64,
}

thread_local! {
    static TALLY: RefCell<Tally> = RefCell::default();
}

/// One more input, of this many bytes.
pub fn add(bytes: usize) {
    TALLY.with_borrow_mut(|tally| {
        tally.inputs += 1;
        tally.bytes += bytes as u64;
    });
}

/// libFuzzer ends the process by `exit`, which does this for the main thread.
impl Drop for Tally {
    fn drop(&mut self) {
        eprintln!("tally: {} inputs of {} bytes", self.inputs, self.bytes);
    }
}
