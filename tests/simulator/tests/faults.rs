//! Tests that the checks detect every fault, for the right reason.

use bulk_reshuffle_simulator::{Fault, run};

/// The maximum number of runs until a fault is detected.
const SEEDS: u64 = 2_000;

#[test]
fn every_fault_is_detected() {
    let missed: Vec<String> = Fault::ALL.iter().filter_map(|fault| missed(*fault)).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

/// Returns how a fault was missed, if it was.
fn missed(fault: Fault) -> Option<String> {
    let mut found = (0..SEEDS).filter_map(|seed| run(seed, Some(fault)).err()).peekable();
    let first = found.peek().map(|failure| failure.violation.to_string());
    let is_found = found.any(|failure| failure.violation.promise == fault.breaks());
    (!is_found).then(|| format!("{fault:?} was not detected in {SEEDS} seeds; first violation: {first:?}"))
}
