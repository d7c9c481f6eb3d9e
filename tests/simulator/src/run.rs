use crate::coverage::Coverage;
use crate::sabotage::Sabotage;
use crate::trace::Trace;
use crate::violation::{Promise, Violation};
use crate::world::World;

/// A run that broke a promise.
#[derive(Debug)]
pub struct Failure {
    /// Which run.
    pub seed: u64,
    /// What happened.
    pub violation: Violation,
    /// The last events before it.
    pub trace: Vec<String>,
}

/// A run that takes longer than this, in milliseconds, does not come to its end. The longest of thousands takes a third.
const LONGEST: u64 = 1_500_000;

/// Runs one seed. A run that fails is run once more, to tell what happened last.
pub fn run(seed: u64, sabotage: Option<Sabotage>) -> Result<Coverage, Box<Failure>> {
    match attempt(seed, sabotage, Trace::default()) {
        (Ok(()), coverage, _) => Ok(coverage),
        (Err(violation), ..) => {
            let (_, _, trace) = attempt(seed, sabotage, Trace::written());
            Err(Box::new(Failure { seed, violation, trace: trace.lines().collect() }))
        }
    }
}

fn attempt(seed: u64, sabotage: Option<Sabotage>, trace: Trace) -> (Result<(), Violation>, Coverage, Trace) {
    match World::new(seed, sabotage, trace) {
        Ok(mut world) => {
            let result = live(&mut world);
            (result, world.coverage, world.trace)
        }
        Err(violation) => (Err(violation), Coverage::default(), Trace::default()),
    }
}

fn live(world: &mut World) -> Result<(), Violation> {
    while !world.is_over() {
        if !world.step()? || world.now > LONGEST {
            break;
        }
    }
    world.check_end()?;
    Violation::unless(world.now <= LONGEST, Promise::Drained, || "it does not come to an end".to_owned())?;
    world.check_asked_once()?;
    world.settle()
}
