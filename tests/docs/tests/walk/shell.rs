use std::process::{Command as Process, Stdio};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_docs::{Block, Command, root};

use crate::before::{self, Before};
use crate::output;

/// Far longer than any block takes.
const SECONDS: &str = "240";

/// Between what the commands of a block print.
const MARK: char = '\u{1}';

/// A refusal is a failure, although curl by itself finds that it has done its work.
const CURL: &str = "curl() { command curl --fail-with-body --show-error \"$@\"; }\n";

/// What runs the commands of a block.
#[derive(Default)]
pub struct Shell {
    before: Option<&'static Before>,
}

impl Shell {
    /// For a block that needs more than `make up` has started.
    pub fn before(block: &Block) -> Self {
        Self { before: before::of(block) }
    }

    /// Runs the commands in one shell, from the root of the checkout, until one of them fails.
    pub fn run(self, commands: &[Command]) -> Result<()> {
        let steps = commands.iter().map(|command| format!("{}\nprintf '{MARK}'\n", command.text));
        let (first, last) = self.before.map_or(("", ""), |before| (before.first, before.last));
        let script = format!("{CURL}{first}\nprintf '{MARK}'\n{}{last}", steps.collect::<String>());
        let output = Process::new("timeout")
            .args(["--kill-after=10", SECONDS, "bash", "-euo", "pipefail", "-c", &script])
            .current_dir(root())
            // What `make test-docs` was told is not meant for these.
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL")
            .stdin(Stdio::null())
            .output()
            .context("cannot start bash")?;
        let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{}\n{printed}\n{errors}", output.status);
        let outputs: Vec<&str> = printed.split(MARK).skip(1).collect();
        ensure!(outputs.len() > commands.len(), "a command has left the shell:\n{printed}\n{errors}");
        commands.iter().zip(outputs).try_for_each(|(command, printed)| output::check(command, printed))
    }
}
