//! Shows progress on standard error.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// A step: a spinner or a bar on a terminal, a plain line elsewhere. Dropping an unfinished step removes it.
pub struct Step {
    bar: ProgressBar,
    what: String,
    started: Instant,
}

impl Step {
    /// Starts a step of unknown length.
    pub fn start(what: &str) -> Self {
        Self::with(what, ProgressBar::new_spinner(), "{spinner:.cyan} {msg} {elapsed:.dim}")
    }

    /// Starts a step with a known number of parts.
    pub fn start_counted(what: &str, parts: usize) -> Self {
        let bar = ProgressBar::new(u64::try_from(parts).unwrap_or(u64::MAX));
        Self::with(what, bar, "{spinner:.cyan} {msg} {bar:30.cyan/dim} {human_pos}/{human_len}")
    }

    fn with(what: &str, bar: ProgressBar, template: &str) -> Self {
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, what: what.to_owned(), started: Instant::now() }
    }

    pub fn advance(&self) {
        self.bar.inc(1);
    }

    /// Completes the step and prints its duration.
    pub fn finish(self) {
        self.bar.finish_and_clear();
        let done = console::style("✓").for_stderr().green();
        eprintln!("{done} {} ({:.1} s)", self.what, self.started.elapsed().as_secs_f64());
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
