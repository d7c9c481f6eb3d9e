//! Every kind of index, alias and data stream on every version: the filter sends each operation to the node that the
//! cluster reports, or does not route it for the right reason. Run with `make test-matrix`, or with
//! `VERSIONS="opensearch-2 …"` for some of the versions.

mod cell;
mod key;
mod kind;
mod longest_items;
mod older;
mod oracle;
mod report;
mod requests;
mod routes;
mod scene;

use std::time::Instant;

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::{check_filter, chosen_releases};
use bulk_reshuffle_stack::Distribution;
use fastrand::Rng;

use self::cell::Cell;
use self::kind::Kind;
use self::longest_items::LongestItems;
use self::report::Report;
use self::routes::Routes;

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_is_routed_as_expected_on_every_version() -> Result<()> {
    let (mut report, mut failures) = (Report::default(), Vec::new());
    let seed = std::env::var("MATRIX_SEED").map_or_else(|_| Ok(fastrand::u64(..)), |seed| seed.parse())?;
    println!("MATRIX_SEED={seed} reproduces these keys");
    for version in chosen_releases(&Distribution::ALL)? {
        let started = Instant::now();
        match column(version, Rng::with_seed(seed), &mut failures).await {
            Ok(cells) => report.add(version, cells),
            Err(error) => failures.push(format!("{}: {error:#}", version.name())),
        }
        println!("{}: {:.0} s", version.name(), started.elapsed().as_secs_f64());
    }
    println!("\n{report}");
    ensure!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    Ok(())
}

/// Returns the result of each kind on a version.
async fn column(version: Distribution, mut rng: Rng, failures: &mut Vec<String>) -> Result<Vec<(String, String)>> {
    let (kinds, started) = (Kind::all()?, Instant::now());
    let has = |kind: &&Kind| kind.is_on(version);
    let scene = scene::start(version, &kinds.iter().filter(has).collect::<Vec<_>>()).await?;
    println!("{}: ready after {:.0} s", version.name(), started.elapsed().as_secs_f64());
    let routes = Routes::load(&scene).await?;
    let mut cells = Vec::new();
    for kind in &kinds {
        let rng = rng.fork();
        let (cell, failure) = match has(&kind) {
            true => verdict(Cell::fill(&scene, version, &routes, kind, rng).await),
            false => ("–".to_owned(), None),
        };
        failures.extend(failure.map(|failure| format!("{}, {}: {failure}", version.name(), kind.title)));
        cells.push((kind.title.clone(), cell));
    }
    let (cell, failure) = match LongestItems::look(&scene).await {
        Ok(cell) => (cell, None),
        Err(error) => ("**failed**".to_owned(), Some(format!("{error:#}"))),
    };
    failures.extend(failure.map(|failure| format!("{}, longest items: {failure}", version.name())));
    cells.push(("longest item".to_owned(), cell));
    check_filter(&scene.envoy).await?;
    scene.stop().await?;
    Ok(cells)
}

/// Returns the cell of a kind for the report, and its failure, if any.
fn verdict(cell: Result<Cell>) -> (String, Option<String>) {
    match cell {
        Ok(cell) if cell.mismatches > 0 => (format!("**{cell}**"), Some(format!("{} mismatches", cell.mismatches))),
        Ok(cell) => (cell.to_string(), None),
        Err(error) => ("**failed**".to_owned(), Some(format!("{error:#}"))),
    }
}
