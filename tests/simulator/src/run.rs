use crate::coverage::Coverage;
use crate::fault::Fault;
use crate::harness::Harness;
use crate::trace::Trace;
use crate::violation::Violation;

/// A run that broke a promise.
#[derive(Debug)]
pub struct Failure {
    pub seed: u64,
    pub violation: Violation,
    /// The last events before it.
    pub trace: Vec<String>,
}

/// The time without an event of a request after which a run is considered stuck, in milliseconds. The longest such time
/// of 100,000 runs is a fifth of this, while engines poll a cluster that does not answer.
///
/// The duration of a run is not a criterion: hundreds of requests that go to one slow node one by one, and repeatedly
/// because most cannot be sent, take half an hour. Such a run ends, because the number of attempts is limited.
const STANDSTILL: u64 = 100_000;

/// Runs one seed. Repeats a failed run to record its last events.
pub fn run(seed: u64, fault: Option<Fault>) -> Result<Coverage, Box<Failure>> {
    match attempt(seed, fault, Trace::default()) {
        (Ok(()), coverage, _) => Ok(coverage),
        (Err(violation), ..) => {
            let (_, _, trace) = attempt(seed, fault, Trace::written());
            Err(Box::new(Failure { seed, violation, trace: trace.lines().collect() }))
        }
    }
}

fn attempt(seed: u64, fault: Option<Fault>, trace: Trace) -> (Result<(), Violation>, Coverage, Trace) {
    match Harness::new(seed, fault, trace) {
        Ok(mut harness) => {
            let result = live(&mut harness);
            (result, harness.coverage, harness.trace)
        }
        Err(violation) => (Err(violation), Coverage::default(), Trace::default()),
    }
}

fn live(harness: &mut Harness) -> Result<(), Violation> {
    while !harness.is_over() {
        if !harness.step()? || harness.now.saturating_sub(harness.moved) > STANDSTILL {
            break;
        }
    }
    harness.check_end()?;
    harness.check_asked_once()?;
    harness.settle()
}
