//! The checks at the end of the demo, each with ✓ or ✗.

use console::style;

/// Prints checks and counts failures.
#[derive(Debug, Default)]
pub struct Checks {
    failed: usize,
}

impl Checks {
    /// Prints a check. `detail` describes a failure.
    pub fn check(&mut self, passed: bool, what: &str, detail: impl FnOnce() -> String) {
        if passed {
            println!("  {} {what}", style("✓").green());
        } else {
            self.failed += 1;
            println!("  {} {what}: {}", style("✗").red(), detail());
        }
    }

    pub fn equal<T: PartialEq + std::fmt::Debug>(&mut self, found: &T, expected: &T, what: &str) {
        self.check(found == expected, what, || format!("{found:?}, expected {expected:?}"));
    }

    pub fn all_passed(&self) -> bool {
        self.failed == 0
    }
}
