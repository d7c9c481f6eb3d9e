//! The servers' own parsers judge what the filter vouches for: random bodies go to the filter's engine and to the parser
//! of each release. Each release must accept a body that the filter splits, as the operations that the filter reads. The
//! nodes must read the same operations in the batches that the filter sends.
//!
//! `make test-parsers` chooses the releases and the time.

mod filter;
mod grammar;
mod judge;
mod minimal;
mod server_parser;
mod tally;
mod values;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use bulk_reshuffle_e2e::chosen_releases;
use bulk_reshuffle_stack::{Distribution, Tools};

use self::grammar::{Body, Grammar};
use self::judge::{Judge, Verdict};
use self::minimal::minimal;
use self::server_parser::ServerParser;
use self::tally::Tally;

/// Bodies that are judged at once.
const BATCH: usize = 2_000;

/// Differences to report. Further ones are mostly like the first.
const SHOWN: usize = 5;

#[test]
fn every_release_reads_what_the_filter_splits_as_the_filter_does() -> Result<()> {
    let tools = Tools::find()?;
    let classes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("parsers");
    ServerParser::compile(&tools, &classes)?;
    let start = |release| Judge::start(&tools, &classes, release);
    let judges: Vec<_> = chosen_releases(&Distribution::ALL)?.into_iter().map(start).collect::<Result<_>>()?;
    let seed = number("SEED").unwrap_or(0);
    let (mut grammar, mut tally) = (Grammar::new(seed), Tally::default());
    let (began, time) = (Instant::now(), Duration::from_secs(number("TIME").unwrap_or(60)));
    let mut wrong = Vec::new();
    while began.elapsed() < time && wrong.is_empty() {
        let bodies: Arc<[Body]> = (0..BATCH).map(|_| grammar.body()).collect();
        let verdicts = judge(&judges, &bodies)?;
        for (place, body) in bodies.iter().enumerate() {
            tally.add(body, verdicts.iter().map(|verdicts| &verdicts[place]));
            for (judge, verdicts) in verdicts.iter().enumerate() {
                if wrong.len() < SHOWN && matches!(verdicts[place], Verdict::Wrong(_)) {
                    wrong.push((judge, body.clone()));
                }
            }
        }
    }
    println!("{tally}");
    for (judge, body) in &wrong {
        report(&judges[*judge], body)?;
    }
    assert!(wrong.is_empty(), "see above; to repeat: SEED={seed}");
    Ok(())
}

/// Returns the verdicts of each release on each body.
fn judge(judges: &[Judge], bodies: &Arc<[Body]>) -> Result<Vec<Vec<Verdict>>> {
    judges.iter().try_for_each(|judge| judge.begin(bodies))?;
    judges.iter().map(Judge::verdicts).collect()
}

fn report(judge: &Judge, body: &Body) -> Result<()> {
    let verdict = |body: &Body| -> Result<Verdict> {
        judge.begin(&Arc::from([body.clone()]))?;
        Ok(judge.verdicts()?.remove(0))
    };
    let smallest = minimal(body, |body| Ok(matches!(verdict(body)?, Verdict::Wrong(_))))?;
    println!("{}, {:?}:\n{}", judge.release.title(), smallest.query, smallest.bytes.escape_ascii());
    println!("{:#?}\n", verdict(&smallest)?);
    Ok(())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().filter(|text| !text.is_empty()).map(|text| text.parse().expect(name))
}
