//! The checks at the end, each with ✓ or ✗.

use console::style;

/// Collects checks and prints them as they come.
#[derive(Debug, Default)]
pub struct Checks {
    failed: usize,
}

impl Checks {
    /// Prints a check; `detail` says what was found if it failed.
    pub fn check(&mut self, passed: bool, what: &str, detail: impl FnOnce() -> String) {
        if passed {
            println!("  {} {what}", style("✓").green());
        } else {
            self.failed += 1;
            println!("  {} {what}: {}", style("✗").red(), detail());
        }
    }

    /// Checks that two things are equal.
    pub fn equal<T: PartialEq + std::fmt::Debug>(&mut self, found: &T, expected: &T, what: &str) {
        self.check(found == expected, what, || format!("{found:?}, expected {expected:?}"));
    }

    /// Whether all checks have passed.
    pub fn all_passed(&self) -> bool {
        self.failed == 0
    }
}
