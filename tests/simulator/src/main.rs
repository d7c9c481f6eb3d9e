//! Runs many seeds on all cores, or one seed, and prints the coverage: `make sim`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bulk_reshuffle_simulator::{Coverage, Failure, run};

const USAGE: &str = "bulk-reshuffle-simulator --seeds <how many> | --seed <which>";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["--seeds", seeds] => number(seeds).and_then(many),
        ["--seed", seed] => number(seed).and_then(one),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected a number, found {text:?}"))
}

fn one(seed: u64) -> Result<(), String> {
    run(seed, None).map(|coverage| show(&coverage)).map_err(|failure| describe(&failure))
}

fn many(seeds: u64) -> Result<(), String> {
    let start = Instant::now();
    let next = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(|| run_seeds(&next, seeds))).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let mut coverage = Coverage::default();
    for result in results {
        let seen = result.map_err(|_| "a run panicked".to_owned())?;
        coverage.merge(&seen.map_err(|failure| describe(&failure))?);
    }
    show(&coverage);
    let elapsed = start.elapsed().as_secs_f64();
    println!("\n{seeds} seeds kept every promise: {elapsed:.1} s, {:.0} seeds/s", seeds as f64 / elapsed);
    Ok(())
}

/// Runs seeds until there are no more or one fails. Several threads do this at once.
fn run_seeds(next: &AtomicU64, seeds: u64) -> Result<Coverage, Box<Failure>> {
    let mut coverage = Coverage::default();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds {
            return Ok(coverage);
        }
        // After a failure the other threads stop.
        let seen = run(seed, None).inspect_err(|_| next.store(seeds, Ordering::Relaxed))?;
        coverage.merge(&seen);
    }
}

fn show(coverage: &Coverage) {
    for (what, times) in coverage.iter() {
        println!("{times:>12}  {what}");
    }
    let step = coverage.largest_ratio;
    println!("{:>12.3}  allocated bytes for each byte counted, at most: {step:?}", step.ratio());
}

fn describe(failure: &Failure) -> String {
    let Failure { seed, violation, trace } = failure;
    format!("{}\n\nseed {seed} broke a promise. {violation}\nRepeat it with: make sim SEED={seed}", trace.join("\n"))
}
