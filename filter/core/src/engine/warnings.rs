use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;

/// What operators are told in the log: each thing once in a while, and few things at a time, whatever happens.
#[derive(Debug, Default)]
pub struct Warnings {
    waiting: VecDeque<String>,
    /// What was told since the beginning of the minute.
    told: Vec<String>,
    since: Time,
    left_out: usize,
}

/// After which the same may be told again.
const MINUTE: Duration = Duration::from_secs(60);

/// So many different things in one minute.
const MOST: usize = 10;

/// Characters of one: some quote what the cluster has answered.
const LONGEST: usize = 500;

impl Warnings {
    /// Tells this, unless it or much else was told just now.
    pub fn push(&mut self, warning: &str, now: Time) {
        let on_one_line = |char: char| if char.is_control() { ' ' } else { char };
        let warning: String = warning.chars().take(LONGEST).map(on_one_line).collect();
        if now >= self.since.saturating_add(MINUTE) {
            self.since = now;
            self.told.clear();
            let left_out = std::mem::take(&mut self.left_out);
            if left_out > 0 {
                self.waiting.push_back(format!("{left_out} warnings like these were left out in the last minute"));
            }
        }
        if self.told.contains(&warning) || self.told.len() >= MOST {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        self.told.push(warning.clone());
        self.waiting.push_back(warning);
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next that is to be told.
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
    fn the_same_is_told_once_in_a_minute() {
        let mut warnings = Warnings::default();
        for second in 0..59 {
            warnings.push("no answer", Duration::from_secs(second));
        }
        assert_eq!(all(&mut warnings), ["no answer"]);
        warnings.push("no answer", MINUTE);
        let told = all(&mut warnings);
        assert_eq!(told, ["58 warnings like these were left out in the last minute", "no answer"]);
        warnings.push("no answer", 2 * MINUTE);
        assert_eq!(all(&mut warnings), ["no answer"]);
    }

    #[test]
    fn only_so_many_things_are_told_at_a_time() {
        let mut warnings = Warnings::default();
        for number in 0..10_000 {
            warnings.push(&format!("warning {number}"), Time::ZERO);
        }
        assert_eq!(all(&mut warnings).len(), MOST);
    }

    #[test]
    fn a_warning_is_one_line_of_bounded_length() {
        let mut warnings = Warnings::default();
        warnings.push(&format!("found \"a\n[info] all is well\u{1b}[0m\"{}", "ü".repeat(LONGEST)), Time::ZERO);
        let told = all(&mut warnings).remove(0);
        assert_eq!(told.chars().count(), LONGEST);
        assert!(told.starts_with("found \"a [info] all is well [0m\"ü"), "{told}");
    }
}
