//! `demo`: sends the same loads directly and through the filter, and compares the results.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use bulk_reshuffle_stack::{Counters, Distribution, Lifetime, Tools};

use crate::checks::Checks;
use crate::evidence::{Evidence, PerNode};
use crate::load::{self, Outcome};
use crate::placement::{self, Placement};
use crate::progress::Step;
use crate::site::{Site, run_dir};
use crate::tables;
use crate::upstream::{COORDINATOR, Upstream};
use crate::workload::Workload;

const RUN_DIR: &str = "demo";
const WARM_UP: &str = "books-warm-up";
const DIRECT: &str = "books-direct";
const FILTERED: &str = "books-filter";
/// The time of the idle measurement. It is longer than the filter's refresh interval, so that it includes the filter's
/// own queries to the cluster.
const IDLE: Duration = Duration::from_secs(6);

/// The results of a load on one path to the cluster: directly, or through the filter.
pub struct Way {
    pub outcome: Outcome,
    pub bytes_between_nodes: u64,
}

/// A workload that is sent directly and through the filter.
pub struct Phase {
    pub workload: Arc<Workload>,
    pub direct: Way,
    pub filtered: Way,
    /// The growth of the filter's counters.
    pub counters: Counters,
    /// The operations that each node executed on its own primary shards during the load through the filter.
    pub on_primaries: PerNode,
}

pub struct Figures {
    pub nodes: Vec<String>,
    pub phases: Vec<Phase>,
    /// The idle traffic between the nodes, in bytes per second.
    pub idle_rate: f64,
    pub placement: Placement,
    /// The number of documents in the index of the direct loads.
    direct_count: i64,
    /// The number of documents in the index of the loads through the filter.
    filtered_count: i64,
    /// The id of the first document that differs between the two indices.
    difference: Option<String>,
}

pub async fn run() -> Result<ExitCode> {
    let tools = Tools::find()?;
    let indices = [WARM_UP, DIRECT, FILTERED];
    let run_dir = run_dir(&tools, RUN_DIR);
    let site = Site::start(&tools, &run_dir, Distribution::default(), Lifetime::WithParent, &indices).await?;
    let figures = measure(&site).await?;
    let step = Step::start("everything stopped");
    site.stop().await?;
    step.finish();

    println!("\n{}", tables::by_node(&figures));
    println!("\n{}", tables::placement(&figures));
    println!("\n{}", tables::compared(&figures));
    println!("\n{}\n", tables::notes(&figures));
    let mut checks = Checks::default();
    check(&figures, &mut checks);
    let (code, verdict) = match checks.all_passed() {
        true => (ExitCode::SUCCESS, console::style("all checks passed").green()),
        false => (ExitCode::FAILURE, console::style("some checks failed; the logs are in .run/demo").red()),
    };
    println!("\n{}", verdict.bold());
    Ok(code)
}

async fn measure(site: &Site) -> Result<Figures> {
    let nodes: Vec<String> = site.cluster.addresses().map(|(name, _)| name.to_owned()).collect();
    let direct: Vec<String> = site.cluster.addresses().map(|(_, address)| format!("http://{address}")).collect();
    let filter = [site.envoy.url("")];
    let evidence = Evidence::new(site.client.clone(), site.cluster.base_url(0)?).await?;

    let step = Step::start("the filter has loaded the cluster's state");
    site.wait_for_state().await?;
    step.finish();
    let step = Step::start("idle traffic between the nodes measured");
    let idle_rate = idle_rate(&evidence).await?;
    step.finish();
    let workloads = [Arc::new(Workload::large()?), Arc::new(Workload::small()?)];
    // Warm up the JVMs on both paths, so that neither pays for the compilation alone. The warm-up is not measured.
    for bases in [direct.as_slice(), &filter] {
        for workload in &workloads {
            load::send(&Arc::new(workload.part()), bases, WARM_UP, "warm-up with a fifth of").await?;
        }
    }

    let mut phases = Vec::new();
    for workload in workloads {
        let (direct, ..) = send(site, &evidence, &workload, &direct, DIRECT, "directly:").await?;
        let (filtered, counters, on_primaries) =
            send(site, &evidence, &workload, &filter, FILTERED, "through the filter:").await?;
        phases.push(Phase { workload, direct, filtered, counters, on_primaries });
    }

    let step = Step::start("both indices read and compared");
    let (direct_count, filtered_count) = (evidence.count(DIRECT).await?, evidence.count(FILTERED).await?);
    let difference = difference(&evidence).await?;
    step.finish();
    let placement = placement::measure(site, &evidence, FILTERED).await?;
    Ok(Figures { nodes, phases, idle_rate, placement, direct_count, filtered_count, difference })
}

/// Sends a workload, and reads all counters immediately before and after it.
async fn send(
    site: &Site,
    evidence: &Evidence,
    workload: &Arc<Workload>,
    bases: &[String],
    index: &str,
    what: &str,
) -> Result<(Way, Counters, PerNode)> {
    let counters = Counters::read(&site.envoy).await?;
    let mut on_primaries = evidence.operations_on_primaries(index).await?;
    let bytes = evidence.bytes_between_nodes().await?;
    let outcome = load::send(workload, bases, index, what).await?;
    let bytes_between_nodes = evidence.bytes_between_nodes().await? - bytes;
    for (node, operations) in evidence.operations_on_primaries(index).await? {
        let before = on_primaries.get(&node).copied().unwrap_or(0);
        on_primaries.insert(node, operations - before);
    }
    let counters = Counters::read(&site.envoy).await?.since(&counters);
    Ok((Way { outcome, bytes_between_nodes }, counters, on_primaries))
}

async fn idle_rate(evidence: &Evidence) -> Result<f64> {
    let (before, started) = (evidence.bytes_between_nodes().await?, Instant::now());
    tokio::time::sleep(IDLE).await;
    let bytes = evidence.bytes_between_nodes().await? - before;
    Ok(bytes as f64 / started.elapsed().as_secs_f64())
}

async fn difference(evidence: &Evidence) -> Result<Option<String>> {
    let (direct, filtered) = tokio::try_join!(evidence.documents(DIRECT), evidence.documents(FILTERED))?;
    let missing = direct.iter().find(|(id, document)| filtered.get(*id) != Some(document));
    let extra = filtered.keys().find(|id| !direct.contains_key(*id));
    Ok(missing.map(|(id, _)| id).or(extra).cloned())
}

fn check(figures: &Figures, checks: &mut Checks) {
    for phase in &figures.phases {
        println!("{}", phase.workload.name);
        check_phase(figures, phase, checks);
    }
    println!("the indices");
    let acknowledged = |way: fn(&Phase) -> &Way| figures.phases.iter().map(|phase| way(phase).outcome.growth).sum();
    let direct: i64 = acknowledged(|phase| &phase.direct);
    let filtered: i64 = acknowledged(|phase| &phase.filtered);
    checks.equal(&figures.direct_count, &direct, &format!("sent directly: {direct} documents acknowledged and found"));
    let what = format!("through the filter: {filtered} documents acknowledged and found");
    checks.equal(&figures.filtered_count, &filtered, &what);
    checks.check(figures.difference.is_none(), "both indices have the same ids, routings and sources", || {
        format!("{} differs", figures.difference.as_deref().unwrap_or("a document"))
    });
    println!("the owning nodes");
    let Placement { sample, with_routing, at_owner, problem, .. } = &figures.placement;
    let what = format!("{sample} single operations ({with_routing} with `routing`): each sent to its owning node");
    checks.check(at_owner == sample, &what, || {
        format!("{} were sent elsewhere; {}", sample - at_owner, problem.as_deref().unwrap_or_default())
    });
}

fn check_phase(figures: &Figures, phase: &Phase, checks: &mut Checks) {
    let requests = phase.workload.requests.len();
    for (way, name) in [(&phase.direct, "sent directly"), (&phase.filtered, "through the filter")] {
        let what = format!("{name}: every answer has the right items in the right order, and the right `errors`");
        checks.check(way.outcome.right == requests, &what, || {
            let problem = way.outcome.problem.as_deref().unwrap_or_default();
            format!("{} of {requests}; the first wrong one: {problem}", way.outcome.right)
        });
    }
    let counters = &phase.counters;
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    checks.check(
        counters.merged() == number(requests) && counters.passed_through().is_empty(),
        "the filter split and answered every request itself",
        || format!("{} of {requests}; passed through: {:?}", counters.merged(), counters.passed_through()),
    );
    let operations = number(phase.workload.operations());
    checks.equal(&counters.get("operations_total"), &operations, "the filter counted every operation once");
    checks.equal(&Upstream::of(counters, COORDINATOR).operations, &0, "no operation went to the coordinator");
    let of_node = |node: &String| (node.clone(), Upstream::of(counters, node).operations);
    let sent: PerNode = figures.nodes.iter().map(of_node).collect();
    checks.equal(
        &sent,
        &phase.on_primaries,
        "each node executed exactly the operations that the filter sent to it, on its own primary shards",
    );
    let (direct, filtered) = (phase.direct.bytes_between_nodes, phase.filtered.bytes_between_nodes);
    checks.check(filtered * 20 <= direct, "at most a twentieth of the bytes crossed between nodes", || {
        format!("{filtered} bytes instead of {direct}")
    });
}
