//! An engine that breaks a promise is found out, for the right reason.

use bulk_reshuffle_simulator::{Sabotage, run};

/// In how many runs at most.
const SEEDS: u64 = 1_000;

#[test]
fn every_sabotage_is_found_out() {
    let missed: Vec<String> = Sabotage::ALL.iter().filter_map(|sabotage| missed(*sabotage)).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

/// How a sabotage was missed, if it was.
fn missed(sabotage: Sabotage) -> Option<String> {
    let mut found = (0..SEEDS).filter_map(|seed| run(seed, Some(sabotage)).err()).peekable();
    let first = found.peek().map(|failure| failure.violation.to_string());
    let is_found = found.any(|failure| failure.violation.promise == sabotage.breaks());
    (!is_found).then(|| format!("{sabotage:?} was not found in {SEEDS} seeds; what was found first: {first:?}"))
}
