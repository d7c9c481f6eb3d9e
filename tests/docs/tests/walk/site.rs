use anyhow::Result;
use bulk_reshuffle_docs::Command;

use crate::shell::Shell;

/// The processes of `make up`. Dropping the value stops them, even if a page started them.
pub struct Site;

impl Site {
    pub fn start() -> Result<Self> {
        let site = Self;
        make("up")?;
        Ok(site)
    }

    /// Creates the value for a page whose commands start the site.
    pub fn to_be_started() -> Self {
        Self
    }

    pub fn end(self) -> Result<()> {
        make("down")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Ignore a failure: usually another error is already being reported.
        make("down").ok();
    }
}

fn make(target: &str) -> Result<()> {
    Shell::default().run(&[Command { text: format!("make {target}"), prints: String::new() }])
}
