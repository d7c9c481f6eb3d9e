//! The totals of a target, printed when its process ends.

use std::cell::RefCell;

use bulk_reshuffle::engine::Step;

#[derive(Default)]
struct Tally {
    inputs: u64,
    bytes: u64,
    worst: Step,
}

thread_local! {
    static TALLY: RefCell<Tally> = RefCell::default();
}

/// Counts one more input of `bytes` bytes.
pub fn add(bytes: usize) {
    TALLY.with_borrow_mut(|tally| {
        tally.inputs += 1;
        tally.bytes += bytes as u64;
    });
}

/// Keeps the step at which an engine allocated the most beyond what it counted.
pub fn step(step: Step) {
    TALLY.with_borrow_mut(|tally| {
        if step.excess() > tally.worst.excess() {
            tally.worst = step;
        }
    });
}

/// libFuzzer ends the process with `exit`, which drops this for the main thread.
impl Drop for Tally {
    fn drop(&mut self) {
        eprintln!("tally: {} inputs of {} bytes", self.inputs, self.bytes);
        if self.worst != Step::default() {
            let Step { allocated, counted } = self.worst;
            eprintln!("memory: {allocated} bytes allocated, {counted} counted");
        }
    }
}
