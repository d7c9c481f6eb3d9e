//! Before real Envoys: each panel has something to show, and each alert can be raised.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle::engine::metrics::Families;
use bulk_reshuffle_e2e::forced_trap;
use bulk_reshuffle_observability::{Dashboard, Job, Prometheus, Rules, Selector, Site, Trouble};
use bulk_reshuffle_stack::{Tools, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

/// The names of the jobs.
const PLAIN: &str = "bulk-reshuffle";
const MESH: &str = "mesh";

/// What takes five minutes to be wrong. The tests of the rules have it.
const LONG: &str = "BulkReshuffleStateStale";

/// `metric_relabel_configs` for Istio's proxies, as the page has them.
fn relabel() -> Result<Value> {
    let page = std::fs::read_to_string(Tools::find()?.root.join("istio/README.md"))?;
    let yaml = page.split("```yaml\n").find(|text| text.starts_with("metric_relabel_configs")).context("no rules")?;
    let config: Value = serde_saphyr::from_str(yaml.split("```").next().unwrap_or_default())?;
    Ok(config["metric_relabel_configs"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_and_the_alerts_see_what_real_envoys_tell() -> Result<()> {
    let (tools, run_dir) = (Tools::find()?, tempfile::tempdir()?);
    let wasm = forced_trap(env!("CARGO_TARGET_TMPDIR"))?;
    let (site, mut trouble, mesh) =
        tokio::try_join!(Site::start(&tools), Trouble::start(wasm.clone(), false), Trouble::start(wasm, true))?;
    let jobs = [
        Job { name: PLAIN, targets: vec![site.admin(), trouble.admin()], relabel: None },
        Job { name: MESH, targets: vec![mesh.admin()], relabel: Some(relabel()?) },
    ];
    let prometheus = Prometheus::start(&tools, run_dir.path(), &jobs).await?;
    every_metric_that_is_asked_for_is_there(&prometheus).await?;
    every_panel_has_something_to_show(&prometheus).await?;
    in_a_mesh_labels_are_the_same(&prometheus, &trouble, &mesh).await?;
    site_is_well(&prometheus, &site).await?;
    trouble_is_seen(&prometheus, &mut trouble).await?;
    prometheus.stop().await?;
    mesh.stop().await?;
    trouble.stop().await?;
    site.stop().await
}

/// Tries until it succeeds; after a while the last error stands.
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

/// What the dashboard and the alerts ask for, all of it.
async fn selectors(prometheus: &Prometheus) -> Result<Vec<Selector>> {
    let dashboard = Dashboard::read()?;
    let mut selectors = Vec::new();
    for expression in dashboard.panels().flat_map(|panel| panel.targets()).map(|target| target.expression) {
        selectors.extend(Selector::all(&prometheus.parse(&expression).await?));
    }
    for rule in Rules::read()?.iter() {
        selectors.extend(Selector::all(&prometheus.parse(&rule.expression).await?));
    }
    for (selector, label) in dashboard.choices()? {
        for mut selector in Selector::all(&prometheus.parse(&selector).await?) {
            selector.labels.insert(label.clone());
            selectors.push(selector);
        }
    }
    ensure!(selectors.len() > 100, "only {} selectors were read", selectors.len());
    Ok(selectors)
}

async fn every_metric_that_is_asked_for_is_there(prometheus: &Prometheus) -> Result<()> {
    for selector in selectors(prometheus).await? {
        soon(&format!("{selector:?}"), async || {
            let series = prometheus.series(&format!("{}{{job=\"{PLAIN}\"}}", selector.metric)).await?;
            ensure!(!series.is_empty(), "there is no {}", selector.metric);
            for label in &selector.labels {
                ensure!(series.iter().any(|one| one.contains_key(label)), "{} has no {label}", selector.metric);
            }
            let has = |one: &serde_json::Map<String, Value>| {
                selector.exact.iter().all(|(label, value)| one.get(label).is_some_and(|found| found == value))
            };
            ensure!(series.iter().any(has), "there is none with {:?}", selector.exact);
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn every_panel_has_something_to_show(prometheus: &Prometheus) -> Result<()> {
    let dashboard = Dashboard::read()?;
    for panel in dashboard.panels() {
        for target in panel.targets() {
            soon(&format!("{}: {}", panel.title, target.expression), async || {
                let found = prometheus.query(&target.expression).await?;
                ensure!(found.iter().any(|(_, value)| value.is_finite()), "{found:?}");
                for label in target.legend_labels() {
                    ensure!(found.iter().all(|(labels, _)| labels.contains_key(label)), "no {label} in {found:?}");
                }
                Ok(())
            })
            .await?;
        }
    }
    Ok(())
}

/// The labels of each of the filter's metrics in an Envoy, and the values of those that are the filter's own.
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
            let is_common = matches!(label.as_str(), "outcome" | "reason");
            values.extend(value.as_str().filter(|_| is_common).map(str::to_owned));
            if label == "upstream" {
                // Both call the nodes by their names, and Istio's proxies write a dash as an underscore.
                let value = value.as_str().unwrap_or_default().replace('-', "_");
                values.insert(if value == "any" { "es".into() } else { value });
            }
        }
    }
    Ok(found)
}

async fn in_a_mesh_labels_are_the_same(prometheus: &Prometheus, plain: &Trouble, mesh: &Trouble) -> Result<()> {
    let (plain, mesh) = (plain.admin().to_string(), mesh.admin().to_string());
    soon("the same labels in a mesh", async || {
        let (plain, mesh) = (labels(prometheus, &plain).await?, labels(prometheus, &mesh).await?);
        let differs = plain.iter().find(|(name, labels)| mesh.get(*name) != Some(*labels));
        ensure!(differs.is_none(), "{differs:?} is in a mesh {:?}", differs.map(|(name, _)| mesh.get(name)));
        let other = mesh.keys().find(|name| !plain.contains_key(*name));
        ensure!(other.is_none(), "{other:?} is only in a mesh");
        for family in Families::all().filter(|family| !family.labels.is_empty()) {
            ensure!(mesh.keys().any(|name| name.starts_with(family.name)), "there is no {}", family.name);
        }
        Ok(())
    })
    .await
}

/// The names of the alerts that are pending or fire for an Envoy.
async fn alerts(prometheus: &Prometheus, instance: &str) -> Result<BTreeSet<String>> {
    let alerts = prometheus.alerts().await?;
    let of_instance = alerts.iter().filter(|alert| alert["labels"]["instance"] == instance);
    Ok(of_instance.filter_map(|alert| alert["labels"]["alertname"].as_str().map(str::to_owned)).collect())
}

/// Envoy as shipped, before nodes that are well, is no reason to look.
async fn site_is_well(prometheus: &Prometheus, site: &Site) -> Result<()> {
    let alerts = alerts(prometheus, &site.admin().to_string()).await?;
    ensure!(alerts.is_empty(), "{alerts:?} without a reason");
    Ok(())
}

async fn trouble_is_seen(prometheus: &Prometheus, trouble: &mut Trouble) -> Result<()> {
    let mut expected: BTreeSet<String> = Rules::read()?.iter().map(|rule| rule.alert.clone()).collect();
    ensure!(expected.remove(LONG), "there is no {LONG}");
    let instance = trouble.admin().to_string();
    let died = "BulkReshuffleVmDied";
    // Not all at the same time: a request that is never answered, for one, ends after a while and comes again.
    let missing = RefCell::new(expected);
    soon("every alert, but that of a dead VM", async || {
        let raised = alerts(prometheus, &instance).await?;
        ensure!(!raised.contains(died), "a VM has died by itself");
        let mut missing = missing.borrow_mut();
        missing.retain(|alert| !raised.contains(alert));
        ensure!(missing.iter().eq([died]), "nobody says {missing:?}");
        Ok(())
    })
    .await?;
    trouble.kill_vm().await?;
    soon("the alert of a dead VM", async || {
        ensure!(alerts(prometheus, &instance).await?.contains(died), "nobody says {died}");
        Ok(())
    })
    .await?;
    for rule in prometheus.rules().await? {
        ensure!(rule["health"] == "ok", "{rule}");
    }
    Ok(())
}
