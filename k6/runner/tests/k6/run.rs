use bulk_reshuffle_k6::Script;
use bulk_reshuffle_stack::Tools;
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;

/// The time limit of a run, which is generous even on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

pub struct Run {
    pub code: Option<i32>,
    /// k6's standard output and standard error.
    pub output: String,
    results: TempDir,
}

impl Run {
    pub async fn of<'a>(
        tools: &Tools,
        script: &str,
        target: &str,
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let results = TempDir::new().unwrap();
        let script = Script::find(tools, script).unwrap();
        let mut command = script.command(target, &results.path().join("run"), parameters);
        command.arg("--quiet").stdin(Stdio::null()).kill_on_drop(true);
        let ended = tokio::time::timeout(LIMIT, command.output()).await.expect("k6 timed out").unwrap();
        let output = [ended.stdout, ended.stderr].concat();
        Self { code: ended.status.code(), output: String::from_utf8(output).unwrap(), results }
    }

    pub fn figure(&self, metric: &str, statistic: &str) -> u64 {
        let summary = std::fs::read(self.results.path().join("run.json")).unwrap();
        let summary: Value = serde_json::from_slice(&summary).unwrap();
        let value = &summary["metrics"][metric]["values"][statistic];
        value.as_f64().unwrap_or_else(|| panic!("no {statistic} of {metric}\n{}", self.output)) as u64
    }

    pub fn report(&self) -> String {
        std::fs::read_to_string(self.results.path().join("run.html")).unwrap()
    }
}
