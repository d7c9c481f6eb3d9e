use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bulk_reshuffle_e2e::{RealScene, last_index};
use bulk_reshuffle_stack::{Distribution, wait};
use fastrand::Rng;

use super::key::Key;
use super::kind::{Expected, Kind};
use super::oracle::{self, Placed};
use super::requests::{Requests, Sent};
use super::routes::Routes;
use super::scene;

/// The number of keys that are compared for each kind.
const KEYS: usize = 2_000;

/// The expected bytes between nodes when requests are not routed, in percent of those when they are sent directly.
const UNROUTED: std::ops::Range<f64> = 70.0..140.0;

/// The number of bytes between nodes below which a comparison makes no sense, because operations were refused earlier.
const LITTLE: u64 = 60_000;

/// How often the bytes between nodes are measured while they are too many. Nodes also send each other cluster states and
/// pings, more of them the longer a measurement takes. Such traffic only adds bytes, so the least measurement counts.
const MEASUREMENTS: usize = 3;

/// The result of one kind on one version.
#[derive(Debug)]
pub struct Cell {
    checked: usize,
    pub mismatches: usize,
    reason: Option<String>,
    /// Bytes between nodes through the filter, as a percentage of those without it.
    bytes: Option<f64>,
}

impl fmt::Display for Cell {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Some(reason) => write!(to, "`{reason}`")?,
            None if self.checked == 0 => write!(to, "refused")?,
            None => write!(to, "{}/{}", self.checked, self.mismatches)?,
        }
        match self.bytes {
            Some(bytes) => write!(to, ", {bytes:.0} %"),
            None => Ok(()),
        }
    }
}

impl Cell {
    /// Checks a kind, and returns its cell.
    pub async fn fill(
        scene: &RealScene,
        release: Distribution,
        routes: &Routes,
        kind: &Kind,
        mut rng: Rng,
    ) -> Result<Self> {
        let mut kind = kind.clone();
        if kind.is_backed {
            kind.target = last_index(&scene.client, &scene.direct(0, "")?, &kind.target).await?;
        }
        let keys = kind.keys(&mut rng, KEYS);
        match kind.expected(release) {
            Expected::Routed => routed(scene, routes, &kind, &keys, &mut rng).await,
            Expected::RoutedOnceMade => {
                make(scene, &kind, &mut rng).await?;
                routed(scene, &Routes::load(scene).await?, &kind, &keys, &mut rng).await
            }
            Expected::Refused => {
                let placed = place(routes, &kind, &keys, &mut rng)?;
                let bytes = sent_as_placed(scene, &kind, &placed, &mut rng).await?;
                Ok(Self { checked: 0, mismatches: 0, reason: None, bytes })
            }
            Expected::Unrouted(reason) => {
                for key in &keys {
                    let line = kind.line(&mut rng, key);
                    let found = routes.place(&line, key)?.map_err(|why| why.name());
                    ensure!(found == Err(reason.as_str()), "{line:.200} is {found:?}, not {reason}");
                }
                unrouted(scene, &kind, &keys, reason, &mut rng).await
            }
            Expected::Passed(reason) => unrouted(scene, &kind, &keys, reason, &mut rng).await,
        }
    }
}

async fn routed(scene: &RealScene, routes: &Routes, kind: &Kind, keys: &[Key], rng: &mut Rng) -> Result<Cell> {
    let placed = place(routes, kind, keys, rng)?;
    let index = Requests::new(rng, kind, keys, 1).direct(scene).await?.index()?;
    let mut mismatches = oracle::misplaced(scene, &index, &placed).await?;
    if !kind.is_partitioned {
        mismatches = mismatches.max(oracle::unconfirmed(scene, &index, kind.added_routing.as_deref(), &placed).await?);
    }
    if mismatches > 0 {
        return Ok(Cell { checked: placed.len(), mismatches, reason: None, bytes: None });
    }
    let bytes = sent_as_placed(scene, kind, &placed, rng).await?;
    let bytes = bytes.context("too few bytes cross between nodes to compare")?;
    ensure!(bytes <= kind.bytes_at_most(), "{bytes} % of the bytes cross between nodes");
    Ok(Cell { checked: placed.len(), mismatches, reason: None, bytes: Some(bytes) })
}

/// Returns the node to which the table routes the operation of each key. An unrouted operation is an error.
fn place(routes: &Routes, kind: &Kind, keys: &[Key], rng: &mut Rng) -> Result<Vec<Placed>> {
    let mut placed = Vec::new();
    for key in keys {
        let line = kind.line(rng, key);
        match routes.place(&line, key)? {
            Ok(place) => placed.push((key.clone(), place)),
            Err(why) => bail!("{line:.200} is unrouted: {}", why.name()),
        }
    }
    Ok(placed)
}

/// Compares requests sent directly and through the filter, which must send each node the operations that its table
/// says.
async fn sent_as_placed(scene: &RealScene, kind: &Kind, placed: &[Placed], rng: &mut Rng) -> Result<Option<f64>> {
    let placed = &placed[..kind.operations()];
    let mut expected = BTreeMap::<String, u64>::new();
    for (_, place) in placed {
        *expected.entry(format!("batch_operations_total.upstream.{}", place.node)).or_default() += 1;
    }
    let keys: Vec<Key> = placed.iter().map(|(key, _)| key.clone()).collect();
    let mut least: Option<f64> = None;
    for _ in 0..MEASUREMENTS {
        let (bytes, counted) = compare(scene, kind, &keys, rng).await?;
        let batches: BTreeMap<_, _> = counted
            .iter()
            .filter(|(name, _)| name.starts_with("batch_operations"))
            .map(|(name, count)| (name.clone(), *count))
            .collect();
        ensure!(batches == expected, "the filter counted {counted:?}, not {expected:?}");
        least = least.into_iter().chain(bytes).reduce(f64::min);
        if least.is_none_or(|least| least <= kind.bytes_at_most()) {
            break;
        }
    }
    Ok(least)
}

async fn unrouted(scene: &RealScene, kind: &Kind, keys: &[Key], reason: &str, rng: &mut Rng) -> Result<Cell> {
    if kind.operations() == 0 {
        return Ok(Cell { checked: keys.len(), mismatches: 0, reason: Some(reason.to_owned()), bytes: None });
    }
    let keys = &keys[..kind.operations()];
    Requests::new(rng, kind, keys, 1).direct(scene).await?;
    let (bytes, counted) = compare(scene, kind, keys, rng).await?;
    let count = |name: &str| counted.get(name).copied().unwrap_or_default();
    let passed = count(&format!("requests_total.outcome.passed_through.reason.{reason}"));
    let merged = count("batch_operations_total.upstream.es");
    let is_whole = passed > 0 && !counted.keys().any(|name| name.starts_with("batch"));
    let is_merged = merged == kind.operations() as u64 && !counted.keys().any(|name| name.contains("upstream.es-"));
    ensure!(is_whole || is_merged, "{reason}: the filter counted {counted:?}");
    if let Some(bytes) = bytes {
        ensure!(UNROUTED.contains(&bytes), "{bytes} % of the bytes cross between nodes");
    }
    Ok(Cell { checked: keys.len(), mismatches: 0, reason: Some(reason.to_owned()), bytes })
}

/// Sends the same requests directly and through the filter, and compares the answers. Returns the bytes that crossed
/// between nodes through the filter, in percent of those without it, and the growth of the filter's counters.
async fn compare(
    scene: &RealScene,
    kind: &Kind,
    keys: &[Key],
    rng: &mut Rng,
) -> Result<(Option<f64>, BTreeMap<String, u64>)> {
    let requests = Requests::new(rng, kind, &keys[..kind.operations()], 1_000);
    let direct = requests.direct(scene).await?;
    let before = scene::counts(scene).await?;
    let filtered = requests.through_the_filter(scene).await?;
    let mut counted = scene::counts(scene).await?;
    counted.iter_mut().for_each(|(name, count)| *count -= before.get(name).copied().unwrap_or_default());
    counted.retain(|_, count| *count > 0);
    direct.check_alike(&filtered)?;
    Ok((percentage(&filtered, &direct), counted))
}

fn percentage(part: &Sent, whole: &Sent) -> Option<f64> {
    (whole.bytes > LITTLE).then(|| part.bytes as f64 * 100.0 / whole.bytes as f64)
}

/// Creates the index by a request, and waits until the filter routes to it, which happens before the next regular poll.
async fn make(scene: &RealScene, kind: &Kind, rng: &mut Rng) -> Result<()> {
    let id = |number| Some(format!("first {number}"));
    let keys: Vec<Key> = (0..6).map(|number| Key { id: id(number), routing: None }).collect();
    let requests = Requests::new(rng, kind, &keys, 1);
    let before = scene::counts(scene).await?;
    requests.through_the_filter(scene).await?.index()?;
    let reason = "requests_total.outcome.passed_through.reason.unknown_index";
    ensure!(scene::counts(scene).await?.get(reason) > before.get(reason), "the index was known");
    wait::until(Duration::from_secs(10), "the filter routes to the index", async || {
        let merged = |counts: BTreeMap<String, u64>| counts.get("requests_total.outcome.merged").copied();
        let before = merged(scene::counts(scene).await?);
        requests.through_the_filter(scene).await?;
        Ok((merged(scene::counts(scene).await?) > before).then_some(()))
    })
    .await
}
