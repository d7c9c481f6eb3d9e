use anyhow::Result;
use bulk_reshuffle_docs::Command;

use crate::shell::Shell;

/// What `make up` starts. It is ended with this value, whoever has started it.
pub struct Site;

impl Site {
    pub fn start() -> Result<Self> {
        let site = Self;
        make("up")?;
        Ok(site)
    }

    /// The page itself says how.
    pub fn to_be_started() -> Self {
        Self
    }

    pub fn end(self) -> Result<()> {
        make("down")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // After an error, which is told of instead.
        make("down").ok();
    }
}

fn make(target: &str) -> Result<()> {
    Shell::default().run(&[Command { text: format!("make {target}"), prints: String::new() }])
}
