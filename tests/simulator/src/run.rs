use crate::coverage::Coverage;
use crate::sabotage::Sabotage;
use crate::trace::Trace;
use crate::violation::Violation;
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

/// A run in which nothing has happened to a request for so many milliseconds does not come to its end. The longest
/// such time of 100,000 runs is a fifth, while engines that nobody answers ask the cluster in vain.
///
/// The time of a whole run is no measure: hundreds of requests that go to one slow node one by one, and again and
/// again because most cannot be sent, take half an hour. It has an end, as each operation is sent a few times at most.
const STANDSTILL: u64 = 100_000;

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
        if !world.step()? || world.now.saturating_sub(world.moved) > STANDSTILL {
            break;
        }
    }
    world.check_end()?;
    world.check_asked_once()?;
    world.settle()
}
