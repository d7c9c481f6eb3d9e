use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::{Client, Lifetime, Process, Tools, port, wait};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use crate::example;

const START_LIMIT: Duration = Duration::from_secs(60);

/// The scrape interval, which is shorter than the shipped one to keep the test short.
const INTERVAL: &str = "1s";

/// Envoys with the same scrape configuration.
pub struct Job {
    pub name: &'static str,
    /// The Envoys' administration interfaces.
    pub targets: Vec<SocketAddr>,
    /// `metric_relabel_configs`, if any.
    pub relabel: Option<Value>,
}

/// A real Prometheus with the shipped configuration and alerts. Dropping it kills the process.
pub struct Prometheus {
    process: Process,
    client: Client,
    port: u16,
}

impl Prometheus {
    /// Starts Prometheus with these jobs instead of the shipped targets.
    pub async fn start(tools: &Tools, run_dir: &Path, jobs: &[Job]) -> Result<Self> {
        let config = run_dir.join("prometheus.json");
        // JSON is valid YAML.
        fs::write(&config, configuration(jobs)?.to_string())?;
        let port = port::free()?;
        let mut command = Command::new(tools.folder("prometheus")?.join("prometheus"));
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", run_dir.join("data").display()))
            .arg(format!("--web.listen-address={}", port::loopback(port)))
            .arg("--log.level=warn");
        let process = Process::start("prometheus", command, &run_dir.join("prometheus.log"), Lifetime::WithParent)?;
        let prometheus = Self { process, client: Client::new(), port };
        wait::until(START_LIMIT, "Prometheus is ready", async || {
            prometheus.process.ensure_running()?;
            let answer = prometheus.client.get(&prometheus.url("/-/ready", &[])).await;
            Ok(answer.and_then(|answer| answer.ok()).ok())
        })
        .await?;
        Ok(prometheus)
    }

    /// Evaluates an expression and returns each series' labels and value.
    pub async fn query(&self, expression: &str) -> Result<Vec<(Map<String, Value>, f64)>> {
        let data = self.data("/api/v1/query", &[("query", expression)]).await?;
        let result = data.get("result").and_then(Value::as_array).context("the answer has no result")?;
        let series = |one: &Value| {
            let value = one.pointer("/value/1")?.as_str()?.parse().ok()?;
            Some((one.get("metric")?.as_object()?.clone(), value))
        };
        result.iter().map(|one| series(one).with_context(|| format!("not a series: {one}"))).collect()
    }

    /// Returns the labels of all series that a selector has matched so far.
    pub async fn series(&self, selector: &str) -> Result<Vec<Map<String, Value>>> {
        let data = self.data("/api/v1/series", &[("match[]", selector)]).await?;
        Ok(serde_json::from_value(data)?)
    }

    /// Returns the syntax tree of an expression.
    pub async fn parse(&self, expression: &str) -> Result<Value> {
        self.data("/api/v1/parse_query", &[("query", expression)]).await
    }

    /// Returns the pending and firing alerts.
    pub async fn alerts(&self) -> Result<Vec<Value>> {
        let data = self.data("/api/v1/alerts", &[]).await?;
        data.get("alerts").and_then(Value::as_array).cloned().context("the answer has no alerts")
    }

    /// Returns the rules with their last evaluation.
    pub async fn rules(&self) -> Result<Vec<Value>> {
        let data = self.data("/api/v1/rules", &[]).await?;
        let groups = data.get("groups").and_then(Value::as_array).context("the answer has no groups")?;
        Ok(groups.iter().filter_map(|group| group.get("rules")?.as_array()).flatten().cloned().collect())
    }

    pub async fn stop(self) -> Result<()> {
        self.process.stop().await
    }

    async fn data(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value> {
        let answer = self.client.get(&self.url(path, parameters)).await?;
        let mut json = answer.json()?;
        ensure!(json.get("status").is_some_and(|status| status == "success"), "{parameters:?}: {json}");
        json.get_mut("data").map(Value::take).context("the answer has no data")
    }

    fn url(&self, path: &str, parameters: &[(&str, &str)]) -> String {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let query: Vec<String> =
            parameters.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        format!("http://{}{path}?{}", port::loopback(self.port), query.join("&"))
    }
}

/// Returns the shipped configuration with other targets.
fn configuration(jobs: &[Job]) -> Result<Value> {
    let text = fs::read_to_string(example("prometheus.yaml"))?;
    let mut config: Value = serde_saphyr::from_str(&text)?;
    for interval in ["scrape_interval", "evaluation_interval"] {
        *config.pointer_mut(&format!("/global/{interval}")).context("no interval")? = json!(INTERVAL);
    }
    for file in config.pointer_mut("/rule_files").and_then(Value::as_array_mut).context("no rules")? {
        *file = json!(example(file.as_str().context("no file")?));
    }
    let shipped = config.pointer("/scrape_configs/0").context("no job")?.clone();
    let jobs = jobs.iter().map(|job| {
        let mut config = shipped.clone();
        let targets: Vec<String> = job.targets.iter().map(ToString::to_string).collect();
        *config.pointer_mut("/job_name").context("no name")? = json!(job.name);
        *config.pointer_mut("/static_configs/0/targets").context("no targets")? = json!(targets);
        if let (Some(config), Some(relabel)) = (config.as_object_mut(), &job.relabel) {
            config.insert("metric_relabel_configs".into(), relabel.clone());
        }
        Ok(config)
    });
    let jobs = jobs.collect::<Result<Vec<Value>>>()?;
    *config.pointer_mut("/scrape_configs").context("no jobs")? = jobs.into();
    Ok(config)
}
