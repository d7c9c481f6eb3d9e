use std::process::{Command as Process, Stdio};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_docs::{Block, Command, root};

use crate::before::{self, Before};
use crate::output;

/// The time limit of a block, which is far longer than any block takes.
const SECONDS: &str = "240";

/// The separator between the outputs of a block's commands.
const MARK: char = '\u{1}';

/// Makes curl fail for an error status, for which it succeeds by default.
const CURL: &str = "curl() { command curl --fail-with-body --show-error \"$@\"; }\n";

/// A shell that runs the commands of a block.
#[derive(Default)]
pub struct Shell {
    before: Option<&'static Before>,
}

impl Shell {
    /// Creates a shell with the setup of a block.
    pub fn before(block: &Block) -> Self {
        Self { before: before::of(block) }
    }

    /// Runs the commands in one shell, in the root of the checkout, until a command fails.
    pub fn run(self, commands: &[Command]) -> Result<()> {
        let steps = commands.iter().map(|command| format!("{}\nprintf '{MARK}'\n", command.text));
        let (first, last) = self.before.map_or(("", ""), |before| (before.first, before.last));
        let script = format!("{CURL}{first}\nprintf '{MARK}'\n{}{last}", steps.collect::<String>());
        let output = Process::new("timeout")
            .args(["--kill-after=10", SECONDS, "bash", "-euo", "pipefail", "-c", &script])
            .current_dir(root())
            // The options of `make test-docs` must not apply to these commands.
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL")
            .stdin(Stdio::null())
            .output()
            .context("cannot start bash")?;
        let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{}\n{printed}\n{errors}", output.status);
        let outputs: Vec<&str> = printed.split(MARK).skip(1).collect();
        ensure!(outputs.len() > commands.len(), "a command exited the shell:\n{printed}\n{errors}");
        commands.iter().zip(outputs).try_for_each(|(command, printed)| output::check(command, printed))
    }
}
