//! Tests with real Envoys: each panel has data, and each alert can fire.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle::engine::metrics::Families;
use bulk_reshuffle_e2e::load::{self, Clients};
use bulk_reshuffle_e2e::{ClusterScript, RealScene, Scene, forced_trap, yaml_of_page};
use bulk_reshuffle_stack::{Client, FilterConfig, Tools, wait};
use serde_json::{Value, json};

use crate::alerts::{Rule, Section};
use crate::bare::{self, Bare};
use crate::dashboard::{Dashboard, targets};
use crate::expression::Selector;
use crate::prometheus::{Job, Prometheus};
use crate::trouble::Trouble;

const LIMIT: Duration = Duration::from_secs(120);

/// The number of clients, enough for batches of several requests.
const CLIENTS: usize = 12;

/// The names of the jobs.
const PLAIN: &str = "bulk-reshuffle";
const MESH: &str = "bulk-reshuffle-mesh";

/// The beginning of the names of metrics of Istio's agent, which these tests do not run.
const AGENT: &str = "istio_agent_";

/// An alert that takes four minutes. The tests of the rules cover it.
const LONG: &str = "BulkReshuffleStateStale";

/// Returns `metric_relabel_configs` for Istio's proxies from the page.
fn relabel() -> Result<Value> {
    Ok(yaml_of_page("istio/README.md", "metric_relabel_configs")?["metric_relabel_configs"].clone())
}

/// Starts clients of the shipped Envoy in front of a real cluster. The filter splits most of their requests.
fn clients(scene: &RealScene) -> Clients<()> {
    let mut clients = Clients::default();
    for client in 0..CLIENTS {
        let http = Client::new();
        let [split, whole] = ["/books/_bulk", "/books/_bulk?pipeline=_none"].map(|path| scene.envoy.url(path));
        clients.add((), move |(), number| {
            let (http, url) = (http.clone(), if number % 5 == 4 { whole.clone() } else { split.clone() });
            let first = client * 1_000_000 + number * 7;
            async move { load::write(&http, &url, first..first + 1 + client % 7).await }
        });
    }
    clients
}

/// Starts an Envoy that only observes, and clients with requests that the filter would split, and with others.
async fn observing() -> Result<(Scene, Clients<()>)> {
    let scene =
        Scene::of(ClusterScript::three_nodes()).config(json!({"enabled": "observe"})).own_envoy().start().await?;
    let mut clients = Clients::default();
    for target in ["/_bulk", "/_bulk?unknown=1"] {
        let (http, url, body) = (Client::new(), scene.envoy.url(target), scene.cluster.write_books(0));
        clients.add((), move |(), _| {
            let (http, url, body) = (http.clone(), url.clone(), body.clone());
            async move { http.post_ndjson(&url, body).await?.ok().map(drop) }
        });
    }
    Ok((scene, clients))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_and_the_alerts_work_with_real_envoys() -> Result<()> {
    let (tools, run_dir) = (Tools::find()?, tempfile::tempdir()?);
    let wasm = forced_trap(env!("CARGO_TARGET_TMPDIR"))?;
    let (healthy, mut trouble, mesh, (observing, observed), bare) = tokio::try_join!(
        RealScene::start(&tools, FilterConfig::Shipped, &["books"]),
        Trouble::start(wasm.clone(), false),
        Trouble::start(wasm, true),
        observing(),
        Bare::start()
    )?;
    let clients = clients(&healthy);
    let jobs = [
        Job {
            name: PLAIN,
            targets: vec![healthy.envoy.admin(), trouble.admin(), observing.envoy.admin(), bare.admin()],
            relabel: None,
        },
        Job { name: MESH, targets: vec![mesh.admin()], relabel: Some(relabel()?) },
    ];
    let prometheus = Prometheus::start(&tools, run_dir.path(), &jobs).await?;
    every_queried_metric_exists(&prometheus).await?;
    every_panel_has_data(&prometheus).await?;
    labels_are_the_same_in_a_mesh(&prometheus, &trouble, &mesh).await?;
    let unexpected = alerts(&prometheus, &healthy.envoy.admin().to_string()).await?;
    ensure!(unexpected.is_empty(), "alerts of the shipped Envoy in front of healthy nodes: {unexpected:?}");
    every_alert_fires(&prometheus, &mut trouble, &bare).await?;
    every_command_of_the_runbook_finds_a_metric(&trouble, &bare).await?;
    prometheus.stop().await?;
    bare.stop().await?;
    mesh.stop().await?;
    trouble.stop().await?;
    observed.end().await?;
    observing.finish().await?;
    clients.end().await?;
    healthy.stop().await
}

/// Repeats a check until it succeeds; returns its last error on a timeout.
async fn soon(what: &str, check: impl AsyncFn() -> Result<()>) -> Result<()> {
    let last = RefCell::new(None);
    let done = wait::until(LIMIT, what, async || match check().await {
        Ok(()) => Ok(Some(())),
        Err(error) => {
            last.replace(Some(error));
            Ok(None)
        }
    });
    done.await.map_err(|error| last.take().unwrap_or(error).context(what.to_owned()))
}

/// Returns all selectors of the dashboard and the alerts.
async fn selectors(prometheus: &Prometheus) -> Result<Vec<Selector>> {
    let (dashboard, mut selectors) = (Dashboard::read(), Vec::new());
    let shown = dashboard.panels().flat_map(targets).map(|target| target.expression);
    for expression in shown.chain(Rule::all().into_iter().map(|rule| rule.expression)) {
        selectors.extend(Selector::all(&prometheus.parse(&expression).await?));
    }
    for (selector, label) in dashboard.choices() {
        for mut selector in Selector::all(&prometheus.parse(&selector).await?) {
            selector.labels.insert(label.to_owned());
            selectors.push(selector);
        }
    }
    ensure!(selectors.len() > 100, "only {} selectors were read", selectors.len());
    Ok(selectors)
}

async fn every_queried_metric_exists(prometheus: &Prometheus) -> Result<()> {
    for selector in selectors(prometheus).await?.into_iter().filter(|selector| !selector.metric.starts_with(AGENT)) {
        soon(&format!("{selector:?}"), async || {
            let series = prometheus.series(&format!("{{__name__=~\"{}\", job=\"{PLAIN}\"}}", selector.metric)).await?;
            ensure!(!series.is_empty(), "{} does not exist", selector.metric);
            for label in &selector.labels {
                ensure!(series.iter().any(|one| one.contains_key(label)), "{} has no {label}", selector.metric);
            }
            let has = |one: &serde_json::Map<String, Value>| {
                selector.exact.iter().all(|(label, value)| one.get(label).is_some_and(|found| found == value))
            };
            ensure!(series.iter().any(has), "{} has no series with {:?}", selector.metric, selector.exact);
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn every_panel_has_data(prometheus: &Prometheus) -> Result<()> {
    for panel in Dashboard::read().panels() {
        for target in targets(panel) {
            soon(&format!("{}: {}", panel["title"], target.expression), async || {
                let found = prometheus.query(&target.expression).await?;
                ensure!(found.iter().any(|(_, value)| value.is_finite()), "{found:?}");
                for label in &target.legend_labels {
                    ensure!(found.iter().all(|(labels, _)| labels.contains_key(label)), "no {label} in {found:?}");
                }
                Ok(())
            })
            .await?;
        }
    }
    Ok(())
}

/// The counters of events that depend on chance, so that not every upstream or reason has one.
const BY_CHANCE: [&str; 6] = [
    "bulk_reshuffle_batches_late_total",
    "bulk_reshuffle_batches_redirected_total",
    "bulk_reshuffle_batches_retried_total",
    "bulk_reshuffle_batches_separated_total",
    "bulk_reshuffle_operations_unknown_total",
    "bulk_reshuffle_slots_halved_total",
];

/// Returns the labels of each of the filter's metrics in an Envoy, with the values of the filter's own labels unless they
/// depend on chance.
async fn labels(
    prometheus: &Prometheus,
    instance: &str,
) -> Result<BTreeMap<String, BTreeMap<String, BTreeSet<String>>>> {
    let mut found: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for series in prometheus.series(&format!("{{__name__=~\"bulk_reshuffle_.+\", instance=\"{instance}\"}}")).await? {
        let name = series["__name__"].as_str().context("no name")?;
        let labels = found.entry(name.to_owned()).or_default();
        for (label, value) in series.iter().filter(|(label, _)| *label != "__name__") {
            let values = labels.entry(label.clone()).or_default();
            let value = value.as_str().unwrap_or_default();
            match label.as_str() {
                _ if BY_CHANCE.contains(&name) && label != "coordinator" => {}
                "outcome" | "reason" | "coordinator" => drop(values.insert(value.to_owned())),
                // Both use the nodes' names, but Istio's proxies write a dash as an underscore.
                "upstream" if value == "any" => drop(values.insert("es".to_owned())),
                "upstream" => drop(values.insert(value.replace('-', "_"))),
                _ => {}
            }
        }
    }
    Ok(found)
}

async fn labels_are_the_same_in_a_mesh(prometheus: &Prometheus, plain: &Trouble, mesh: &Trouble) -> Result<()> {
    let (plain, mesh) = (plain.admin().to_string(), mesh.admin().to_string());
    soon("the labels are the same in a mesh", async || {
        let (plain, mesh) = (labels(prometheus, &plain).await?, labels(prometheus, &mesh).await?);
        let differs = plain.iter().find(|(name, labels)| mesh.get(*name) != Some(*labels));
        ensure!(differs.is_none(), "{differs:?} differs in a mesh: {:?}", differs.map(|(name, _)| mesh.get(name)));
        let other = mesh.keys().find(|name| !plain.contains_key(*name));
        ensure!(other.is_none(), "{other:?} exists only in a mesh");
        for family in Families::all().filter(|family| !family.labels.is_empty()) {
            ensure!(mesh.keys().any(|name| name.starts_with(family.name)), "{} does not exist in a mesh", family.name);
        }
        Ok(())
    })
    .await
}

/// Returns the names of an Envoy's pending and firing alerts.
async fn alerts(prometheus: &Prometheus, instance: &str) -> Result<BTreeSet<String>> {
    let alerts = prometheus.alerts().await?;
    let of_instance = alerts.iter().filter(|alert| alert["labels"]["instance"] == instance);
    Ok(of_instance.filter_map(|alert| alert["labels"]["alertname"].as_str().map(str::to_owned)).collect())
}

/// Waits until an Envoy without the filter has raised its alerts, and no others.
async fn alerts_without_the_filter(prometheus: &Prometheus, bare: &Bare) -> Result<()> {
    let instance = bare.admin().to_string();
    soon("the alerts of an Envoy without the filter fire", async || {
        let raised = alerts(prometheus, &instance).await?;
        ensure!(raised.iter().eq(bare::ALERTS), "alerts of {instance}: {raised:?}");
        Ok(())
    })
    .await
}

async fn every_alert_fires(prometheus: &Prometheus, trouble: &mut Trouble, bare: &Bare) -> Result<()> {
    alerts_without_the_filter(prometheus, bare).await?;
    let mut expected: BTreeSet<String> = Rule::all().into_iter().map(|rule| rule.alert).collect();
    for other in [LONG].iter().chain(&bare::ALERTS) {
        ensure!(expected.remove(*other), "the rules have no {other}");
    }
    let instance = trouble.admin().to_string();
    let died = "BulkReshuffleVmDied";
    // The alerts do not fire all at once. For example, a request without an answer times out and is then sent again.
    let missing = RefCell::new(expected);
    soon("every alert fires, except that of a dead VM", async || {
        let raised = alerts(prometheus, &instance).await?;
        ensure!(!raised.contains(died), "a VM died unexpectedly");
        ensure!(bare::ALERTS.iter().all(|alert| !raised.contains(*alert)), "this Envoy has the filter: {raised:?}");
        let mut missing = missing.borrow_mut();
        missing.retain(|alert| !raised.contains(alert));
        ensure!(missing.iter().eq([died]), "alerts that have not fired: {missing:?}");
        Ok(())
    })
    .await?;
    trouble.kill_vm().await?;
    soon("the alert of a dead VM fires", async || {
        ensure!(alerts(prometheus, &instance).await?.contains(died), "{died} has not fired");
        Ok(())
    })
    .await?;
    for rule in prometheus.rules().await? {
        ensure!(rule["health"] == "ok", "{rule}");
    }
    Ok(())
}

/// Checks each alternative of each filter in the commands of the page. Where to look is checked at an Envoy for which the
/// alert has fired, and what shows that it is over at one with the filter.
async fn every_command_of_the_runbook_finds_a_metric(trouble: &Trouble, bare: &Bare) -> Result<()> {
    for section in Section::all() {
        let firing = if bare::ALERTS.contains(&section.alert.as_str()) { bare.admin() } else { trouble.admin() };
        let [look, over] = section.filters();
        let filters = look.into_iter().map(|filter| (firing, filter));
        for (admin, filter) in filters.chain(over.into_iter().map(|filter| (trouble.admin(), filter))) {
            for filter in alternatives(filter) {
                let stats = Client::new().get(&format!("http://{admin}/stats?filter={filter}")).await?.ok()?.text();
                ensure!(!stats.trim().is_empty(), "{}: no metric matches {filter}", section.alert);
            }
        }
    }
    Ok(())
}

/// Returns the alternatives of a regular expression `a(b|c)d` or `a|b`.
fn alternatives(regex: &str) -> Vec<String> {
    let (before, rest) = regex.split_once('(').unwrap_or(("", regex));
    let (inner, after) = rest.split_once(')').unwrap_or((rest, ""));
    inner.split('|').map(|one| format!("{before}{one}{after}")).collect()
}
