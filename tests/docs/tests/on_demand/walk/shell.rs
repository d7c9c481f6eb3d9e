use std::process::{Command as Process, Stdio};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_docs::{Block, Command, root};

use super::output;

/// The time limit of a block, which is far longer than any block takes.
const SECONDS: &str = "240";

/// The separator between the outputs of a block's commands.
const MARK: char = '\u{1}';

/// Makes curl fail for an error status, for which it succeeds by default.
const CURL: &str = "curl() { command curl --fail-with-body --show-error \"$@\"; }\n";

/// Additional setup and cleanup for a block that needs more than `make up`.
pub struct Before {
    page: &'static str,
    begins: &'static str,
    /// The commands to run in the same shell before the block.
    first: &'static str,
    /// The commands to run after the block.
    last: &'static str,
}

/// A replica as in `envoy/front.yaml`, which must end by itself.
static REPLICA: Before = Before {
    page: "envoy/operations.md",
    begins: "curl -X POST 127.0.0.1:9911/healthcheck/fail",
    first: r#"
        config=$(sed 's/: 9200/: 9211/; s/: 9901/: 9911/' envoy/envoy.yaml)
        .tools/envoy/envoy --use-dynamic-base-id --concurrency 1 --config-yaml "$config" > /dev/null 2>&1 &
        PID=$!
        trap 'kill -9 "$PID" 2> /dev/null || :' EXIT
        until [ "$(command curl -s 127.0.0.1:9911/ready)" = LIVE ]; do kill -0 "$PID"; done
        curl -s 127.0.0.1:9211/books/_bulk -H 'content-type: application/x-ndjson' \
            --data-binary $'{"index":{"_id":"1"}}\n{}\n' > /dev/null
    "#,
    last: r#"wait "$PID""#,
};

impl Before {
    /// Returns the setup of a block, if it has any.
    pub fn of(block: &Block) -> Option<&'static Self> {
        let is_its = block.page == REPLICA.page && block.text.trim_start().starts_with(REPLICA.begins);
        is_its.then_some(&REPLICA)
    }
}

/// Runs commands and their setup in one shell, in the root of the checkout, until a command fails.
pub fn run(before: Option<&Before>, commands: &[Command]) -> Result<()> {
    let steps = commands.iter().map(|command| format!("{}\nprintf '{MARK}'\n", command.text));
    let (first, last) = before.map_or(("", ""), |before| (before.first, before.last));
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
