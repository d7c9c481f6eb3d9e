use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;

/// The warnings for the log, rate-limited: each text at most once a minute, and only a few different texts a minute.
#[derive(Debug, Default)]
pub struct Warnings {
    waiting: VecDeque<String>,
    /// The warnings logged since the beginning of the minute.
    logged: Vec<String>,
    since: Time,
    left_out: usize,
}

/// The time after which the same warning may be logged again.
const MINUTE: Duration = Duration::from_secs(60);

/// The maximum number of different warnings in one minute.
const MAX_WARNINGS: usize = 10;

/// The maximum number of characters in a warning: some warnings quote the cluster's answers.
const MAX_CHARACTERS: usize = 500;

impl Warnings {
    /// Queues a warning, unless the limits are reached.
    pub fn push(&mut self, warning: &str, now: Time) {
        let on_one_line = |char: char| if char.is_control() { ' ' } else { char };
        let warning: String = warning.chars().take(MAX_CHARACTERS).map(on_one_line).collect();
        if now >= self.since.saturating_add(MINUTE) {
            self.since = now;
            self.logged.clear();
            let left_out = std::mem::take(&mut self.left_out);
            if left_out > 0 {
                self.waiting.push_back(format!("{left_out} warnings were suppressed in the last minute"));
            }
        }
        if self.logged.contains(&warning) || self.logged.len() >= MAX_WARNINGS {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        self.logged.push(warning.clone());
        self.waiting.push_back(warning);
    }

    /// Returns whether no warning is queued.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the next warning to log.
    pub fn pop(&mut self) -> Option<String> {
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(warnings: &mut Warnings) -> Vec<String> {
        std::iter::from_fn(|| warnings.pop()).collect()
    }

    #[test]
    fn the_same_warning_is_logged_once_a_minute() {
        let mut warnings = Warnings::default();
        for second in 0..59 {
            warnings.push("no answer", Duration::from_secs(second));
        }
        assert_eq!(all(&mut warnings), ["no answer"]);
        warnings.push("no answer", MINUTE);
        let logged = all(&mut warnings);
        assert_eq!(logged, ["58 warnings were suppressed in the last minute", "no answer"]);
        warnings.push("no answer", 2 * MINUTE);
        assert_eq!(all(&mut warnings), ["no answer"]);
    }

    #[test]
    fn the_number_of_different_warnings_is_bounded() {
        let mut warnings = Warnings::default();
        for number in 0..10_000 {
            warnings.push(&format!("warning {number}"), Time::ZERO);
        }
        assert_eq!(all(&mut warnings).len(), MAX_WARNINGS);
    }

    #[test]
    fn a_warning_is_one_line_of_bounded_length() {
        let mut warnings = Warnings::default();
        warnings.push(&format!("found \"a\n[info] all is well\u{1b}[0m\"{}", "ü".repeat(MAX_CHARACTERS)), Time::ZERO);
        let logged = all(&mut warnings).remove(0);
        assert_eq!(logged.chars().count(), MAX_CHARACTERS);
        assert!(logged.starts_with("found \"a [info] all is well [0m\"ü"), "{logged}");
    }
}
