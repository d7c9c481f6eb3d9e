//! Real writers, in their default and in common configurations, before real clusters of every release. Each writes the
//! same documents twice: directly to a node, and through the filter. Run with `make test-writers`.

mod otlp;
mod outcomes;
mod program;
mod requests;
mod scene;
mod target;
mod writer;
mod zipkin;

use std::time::Instant;

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::chosen_releases;
use bulk_reshuffle_stack::Distribution;

use self::outcomes::{Outcome, Outcomes};
use self::scene::Scene;
use self::writer::Writer;

/// The releases that the README's table has.
const RELEASES: [Distribution; 6] = {
    let [_, releases @ ..] = Distribution::ALL;
    releases
};

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Returns the writers that the environment selects: those with one of these words, and those that need no compiler.
fn selected() -> Result<Vec<Writer>> {
    let (words, is_quick) = (variable("WRITERS").to_lowercase(), !variable("QUICK").is_empty());
    let has_word = |title: &str| words.trim().is_empty() || words.split_whitespace().any(|word| title.contains(word));
    let is_selected =
        |writer: &Writer| has_word(&writer.title().to_lowercase()) && !(is_quick && writer.run.is_compiled());
    Ok(Writer::all()?.into_iter().filter(is_selected).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_writer_has_the_outcomes_of_the_table_and_writes_the_same_documents() -> Result<()> {
    let (mut found, mut failures) = (Outcomes::default(), Vec::new());
    for release in chosen_releases(&RELEASES)? {
        let started = Instant::now();
        if let Err(error) = check_release(release, &mut found, &mut failures).await {
            failures.push(format!("{}: {error:#}", release.name()));
        }
        println!("{}: {:.0} s\n", release.title(), started.elapsed().as_secs_f64());
    }
    if variable("RENEW").is_empty() {
        failures.extend(found.differences(&Outcomes::read()?));
    } else {
        found.record(&Writer::all()?)?;
    }
    ensure!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    Ok(())
}

/// Runs every selected writer on a release, and adds the outcomes.
async fn check_release(release: Distribution, found: &mut Outcomes, failures: &mut Vec<String>) -> Result<()> {
    let writers: Vec<_> = selected()?.into_iter().filter(|writer| writer.on.contains(&release)).collect();
    if writers.is_empty() {
        return Ok(());
    }
    let scene = Scene::start(release).await?;
    println!("{}:", release.title());
    for writer in &writers {
        match writer.check(&scene).await {
            Ok(counted) => {
                let outcome = Outcome::from(&counted);
                let (title, requests, documents) = (writer.title(), counted.requests(), writer.documents());
                println!("  {title}{}: {requests} requests: {outcome}; {documents} documents equal", writer.source());
                found.add(writer, release, outcome);
            }
            Err(error) => {
                println!("  {}: failed: {error:.2000}", writer.title());
                failures.push(format!("{}, {}: {error:#}", release.name(), writer.title()));
            }
        }
    }
    scene.stop().await
}
